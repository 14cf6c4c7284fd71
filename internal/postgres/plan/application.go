package plan

import (
	"fmt"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
)

// makeTheRole also ends the plan for a replica, where nothing can be made, and when the inside is unknown.
func makeTheRole(s postgres.Snapshot, plan *draft) bool {
	application := s.Application
	if s.Server.Replica {
		return true
	}
	if !application.Known {
		plan.wait(postgres.Hold{
			Reason: wire.ReasonApplicationUnknown,
			Detail: "what exists for the application could not be seen: " + application.Problem,
		})
		return true
	}
	settings, _ := wanted(s)
	name := settings.Application.Owner
	switch {
	case application.NoPassword != "":
		plan.wait(postgres.Hold{Reason: wire.ReasonPasswordMissing, Detail: application.NoPassword})
	case !application.Role:
		plan.do(postgres.CreateRole{Why: "the application's role does not exist", Name: name})
	case !application.Login || !application.PasswordMatches:
		plan.do(postgres.SetPassword{Why: "the application's role has another password than its Secret", Name: name})
	}
	return false
}

func makeTheDatabase(s postgres.Snapshot, plan *draft) bool {
	if s.Application.Database {
		return false
	}
	settings, _ := wanted(s)
	if s.Application.Role || s.Application.NoPassword == "" {
		plan.do(postgres.CreateDatabase{
			Why:  "the application's database does not exist",
			Name: settings.Application.Database, Owner: settings.Application.Owner,
		})
	}
	return true
}

func makeExtensions(s postgres.Snapshot, plan *draft) bool {
	settings, _ := wanted(s)
	present := map[string]postgres.Extension{}
	for _, extension := range s.Application.Extensions {
		present[extension.Name] = extension
	}
	for _, name := range settings.Extensions {
		extension := present[name]
		switch {
		case extension.Installed == "" && extension.Available == "":
			plan.wait(postgres.Hold{
				Reason: wire.ReasonExtensionMissing,
				Detail: fmt.Sprintf("the image has no extension %s: use an image that has it, or take it out of "+
					"spec.extensions", name),
			})
		case extension.Installed == "":
			plan.do(postgres.CreateExtension{
				Why: "it is wanted and does not exist", Database: settings.Application.Database, Name: name,
			})
		case extension.Available != "" && extension.Available != extension.Installed:
			plan.do(postgres.UpdateExtension{
				Why:      postgres.Why("version " + extension.Installed + " is installed, and the image brings another"),
				Database: settings.Application.Database, Name: name, To: extension.Available,
			})
		}
	}
	return false
}
