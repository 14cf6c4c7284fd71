package operated

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
)

// asks is how the operator gets a report.
type asks = func(context.Context, service.Agent) (wire.Report, error)

// Flaw is a mistake put in on purpose where the operator and the agents meet. Each of them has to be found.
type Flaw struct {
	Name string
	// Rule is the id of the rule that it breaks.
	Rule string
	// Client and Report change what the operator sees and writes, and what it is told. Either may be nil.
	Client func(client.Client) client.Client
	Report func(*Database, asks) asks
	// Blind are rules that see only the means: without them the consequence must show.
	Blind []rule.Rule
}
