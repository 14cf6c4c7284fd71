package search

import (
	"fmt"

	"meridian.dev/meridian/kit/sim"
)

// hook decides about each call of a life.
func (r *run) hook(acting *life) sim.Hook {
	return func(call sim.Call) sim.Verdict {
		verdict := r.decide(acting, call)
		if verdict == sim.Done || verdict == sim.Applied || verdict == sim.CrashAfter {
			r.judge(call)
		}
		return verdict
	}
}

func (r *run) decide(acting *life, call sim.Call) sim.Verdict {
	r.observe() // what the call before this one has done
	r.calls++
	r.verbs, r.turns, r.pasts = append(r.verbs, call.Verb), append(r.turns, r.turn), append(r.pasts, r.past)
	decision, decided := r.chooser.atCall(r, call)
	r.tell(Line{Text: fmt.Sprintf("  call %d, %s", r.calls, call), Detail: !call.Verb.Writes() && !decided})
	if !decided || decision.Do != Answer && r.depth > 0 {
		return sim.Done
	}
	r.decisions = append(r.decisions, decision)
	r.tell(Line{Text: "  " + decision.String(), Decided: true})
	switch decision.Do {
	case Answer:
		acting.back = decision.Back
		return decision.verdict()
	case Delay:
		r.aside(func() bool { return r.next(acting.seat) || r.goOn() }, decision.For)
	case Overtake:
		r.begin(acting.seat, decision.Back)
		r.aside(func() bool { return r.deliver(acting.seat) || r.passOf(acting.seat) }, decision.For*overtaking)
		r.tell(Line{Text: "  and now the call of " + acting.name + " arrives"})
	default:
	}
	return sim.Done
}

// overtaking is how many moves there are for each pass of a process that overtakes: its caches move in between.
const overtaking = 4

// aside makes moves while a call is under way.
func (r *run) aside(move func() bool, count int) {
	r.depth++
	defer func() { r.depth-- }()
	for range count {
		if r.violation != nil || !move() {
			return
		}
		r.observe()
	}
}
