package plan

import (
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/ballot"
	"meridian.dev/meridian/internal/tenure/cache"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/tenure/promise"
	"meridian.dev/meridian/internal/wire"
)

// answerPeers answers each request. What an answer promises is on the volume before it.
func answerPeers(d *draft.Draft) bool {
	for _, request := range d.Inbox {
		if why := d.Misled(request); why != "" {
			d.Refuse(request, why)
			continue
		}
		switch request.Kind {
		case wire.PeerAsk, wire.PeerFence:
			ballot.Answer(d, request)
		case wire.PeerPromise:
			promise.AnswerPromise(d, request)
		case wire.PeerPlace:
			answerPlace(d, request)
		case wire.PeerTell:
			d.Do(tenure.Reply{
				Why: "it was heard", ID: request.ID, Reply: wire.PeerReply{PeerHeader: d.Header(), Yes: true},
			})
		}
	}
	return false
}

func answerPlace(d *draft.Draft, request tenure.Request) {
	// Where data may be lost, whoever has nothing waits for those that have something: one that could never lead says so.
	stranger := d.Policy.Volatile && d.Lease.Record != nil && !d.Lease.Record.Has(d.Self()) && !cache.Newcomer(d)
	reply := wire.PeerReply{PeerHeader: d.Header(), CannotLead: d.CannotLead() != "" || stranger}
	if place := d.Engine.Flushed; d.Predates() {
		reply.Why = "tenure.bring-nothing-back: the copy here is from before the cache was emptied"
	} else if place != nil && d.Engine.Data == tenure.DataWhole && d.Engine.Leading == nil {
		reply.Yes, reply.Timeline, reply.LSN = true, place.Timeline, place.LSN
	} else {
		reply.Why = "how far this copy has come is not known"
	}
	d.Do(tenure.Reply{Why: "it was asked", ID: request.ID, Reply: reply})
}
