package messagingtest

import (
	"strconv"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// consumingCases are about the consuming half of the port; where a case is about handlers as well, [handlingCases] adds them.
func consumingCases() []contractCase {
	return []contractCase{
		{"normal consume", []step{
			{"delivered as it was and once", consuming, deliveredAsItWas},
			{"pause and resume", consuming, pauseAndResume},
			{"the handler before the settlement", consuming + " BrokerAcknowledgement", handlerBeforeSettlement},
		}},
		{"settlement loss", []step{
			{"the answer is lost", consuming, answerLost},
			{"the settlement is lost", consuming, settlementLost},
			{"a dead epoch settles nothing", consuming, deadEpoch},
		}},
		{"redelivery", []step{
			{"what was not settled comes again", consuming, comesAgain},
			{"after a cut", consuming, afterACut},
			{"after a revocation", consuming, afterARevocation},
			{"released and not counted", consuming + " PerMessageSettlement", released},
			{"failed and counted", consuming + " PerMessageSettlement", failedAndCounted},
			{"failed and not before its delay", consuming + " PerMessageSettlement DelayedDelivery", failedWithDelay},
			{"what is not declared is refused", consuming + " !PerMessageSettlement", failRefused},
		}},
		{"redrive identity", []step{{"same message counted anew", consuming + " BrokerAcknowledgement", redriveIdentity}}},
	}
}

func deliveredAsItWas(k *kit) {
	source := k.place("source")
	ms := append(k.messages("", 0, 2), k.messages("key", 2, 3)...)
	k.given(source, ms...)
	r := k.subscribe(source)
	for i, m := range ms {
		d := r.next(m, 1)
		if diff := same(m, d.Message); diff != "" {
			k.Errorf("message %d: %s", i, diff)
		}
		if d.ID != m.ID {
			k.Errorf("message %d: the delivery's id is not the header's", i)
		}
		r.ack(d)
	}
	r.close()
	again := k.subscribe(source)
	k.never("delivered again, though it was settled", func() bool { return r.count()+again.count() > len(ms) })
}

func pauseAndResume(k *kit) {
	source := k.place("source")
	r := k.subscribe(source)
	k.eventually("units are assigned", func() bool { return len(r.units()) > 0 })
	r.c.Pause(r.units()...)
	m := k.messages("key", 0, 1)
	k.given(source, m...)
	k.never("delivered from a paused unit", func() bool { return r.count() > 0 })
	r.c.Resume(r.units()...)
	r.ack(r.next(m[0], 1))
}

func answerLost(k *kit) {
	source := k.place("source")
	m := k.messages("key", 0, 1)
	k.given(source, m...)
	r := k.subscribe(source)
	d := r.next(m[0], 1)
	k.inject(Fault{Kind: LoseSettlement, Destination: string(source.Name), Count: 1})
	if res := r.settle(d, transport.Settlement{Verb: transport.Ack}); res.Status != messaging.SettlementUnknown {
		k.Errorf("the answer was lost: %v", res.Status)
	}
}

func settlementLost(k *kit) {
	source := k.place("source")
	m := k.messages("key", 0, 1)
	k.given(source, m...)
	r := k.subscribe(source)
	d := r.next(m[0], 1)
	k.inject(Fault{Kind: DropSettlement, Destination: string(source.Name), Count: 1})
	if res := r.settle(d, transport.Settlement{Verb: transport.Ack}); res.Status != messaging.SettlementUnknown {
		k.Errorf("the settlement was lost: %v", res.Status)
	}
	r.close()
	k.subscribe(source).next(m[0], 1)
}

func deadEpoch(k *kit) {
	source := k.place("source")
	m := k.messages("key", 0, 1)
	k.given(source, m...)
	r := k.subscribe(source)
	old := r.next(m[0], 1)
	k.inject(Fault{Kind: Lose, Destination: string(source.Name), Count: 1})
	young := r.next(m[0], 2)
	if young.Unit.Name != old.Unit.Name || young.Unit.Epoch <= old.Unit.Epoch {
		k.Errorf("epoch %d of %s after %d of %s", young.Unit.Epoch, young.Unit.Name, old.Unit.Epoch, old.Unit.Name)
	}
	if res := r.settle(old, transport.Settlement{Verb: transport.Ack}); res.Status != messaging.SettlementUnknown {
		k.Errorf("settled in an epoch that is over: %v", res.Status)
	}
	r.close()
	k.subscribe(source).next(m[0], 1) // the old settlement has settled nothing
}

func comesAgain(k *kit) {
	source := k.place("source")
	ms := k.messages("key", 0, 3)
	k.given(source, ms...)
	r := k.subscribe(source)
	r.next(ms[2], 1)
	r.ack(r.next(ms[0], 1))
	r.close()
	again := k.subscribe(source)
	for _, m := range ms[1:] {
		d := again.next(m, 1)
		if diff := same(m, d.Message); diff != "" {
			k.Errorf("delivered again: %s", diff)
		}
		if k.able().PerMessageSettlement && !d.Redelivered {
			k.Errorf("delivered again, and not told")
		}
		again.ack(d)
	}
	k.never("delivered again, though it was settled", func() bool { return len(again.of(ms[0])) > 0 })
}

func afterACut(k *kit) {
	source := k.place("source")
	m := k.messages("key", 0, 1)
	k.given(source, m...)
	r := k.subscribe(source)
	r.next(m[0], 1)
	k.inject(Fault{Kind: Lose, Destination: string(source.Name), Count: 1})
	again := r.next(m[0], 2)
	r.mu.Lock()
	lost := len(r.lost) + len(r.taken)
	r.mu.Unlock()
	if lost == 0 {
		k.Errorf("the units went, and the sink was not told")
	}
	if diff := same(m[0], again.Message); diff != "" {
		k.Errorf("delivered again: %s", diff)
	}
	r.ack(again)
}

func afterARevocation(k *kit) {
	source := k.place("source")
	ms := k.messages("key", 0, 2)
	k.given(source, ms...)
	var r *reader
	var once sync.Once
	ready := make(chan struct{})
	r = k.subscribe(source, func(_ *transport.Subscription, s *sink) {
		s.revoked = func(us []transport.Unit) { // what is settled now is settled
			<-ready
			once.Do(func() {
				for _, d := range s.of(ms[0]) {
					r.ack(d)
				}
			})
		}
	})
	close(ready)
	r.next(ms[1], 1)
	k.inject(Fault{Kind: Revoke, Destination: string(source.Name), Count: 1})
	r.ack(r.next(ms[1], 2))
	k.never("delivered again, though it was settled before the unit went", func() bool { return len(r.of(ms[0])) > 1 })
}

func released(k *kit) {
	source := k.place("source")
	m := k.messages("key", 0, 1)
	k.given(source, m...)
	r := k.subscribe(source)
	if res := r.settle(r.next(m[0], 1), transport.Settlement{Verb: transport.Release}); res.Status != messaging.Settled {
		k.Errorf("release: %v", res.Status)
	}
	d := r.next(m[0], 2)
	if d.Failed != 0 {
		k.Errorf("released, and counted as failed %d times", d.Failed)
	}
	r.ack(d)
}

func failedAndCounted(k *kit) {
	source := k.place("source")
	m := k.messages("key", 0, 1)
	k.given(source, m...)
	r := k.subscribe(source)
	for i := range 2 {
		d := r.next(m[0], i+1)
		if d.Failed != i {
			k.Errorf("delivery %d: %d failures counted, want %d", i+1, d.Failed, i)
		}
		if res := r.settle(d, transport.Settlement{Verb: transport.Fail}); res.Status != messaging.Settled {
			k.Errorf("fail: %v", res.Status)
		}
	}
	r.ack(r.next(m[0], 3))
}

func failedWithDelay(k *kit) {
	source := k.place("source")
	m := k.messages("key", 0, 1)
	k.given(source, m...)
	r := k.subscribe(source)
	delay := 2*k.s.Quiet + time.Second
	r.settle(r.next(m[0], 1), transport.Settlement{Verb: transport.Fail, Delay: delay})
	k.never("delivered before its delay was over", func() bool { return len(r.of(m[0])) > 1 })
	r.ack(r.next(m[0], 2))
}

func failRefused(k *kit) {
	source := k.place("source")
	m := k.messages("key", 0, 1)
	k.given(source, m...)
	r := k.subscribe(source)
	d := r.next(m[0], 1)
	if res := r.settle(d, transport.Settlement{Verb: transport.Fail}); res.Status == messaging.Settled {
		k.Errorf("a failure is counted by a broker that settles no single message")
	}
}

// redriveIdentity moves a dead letter back as the administrator's side does.
func redriveIdentity(k *kit) {
	source, dead := k.place("source"), k.place("dead")
	m := k.messages("key", 0, 1)[0]
	k.confirmed(dead, m)
	letters := k.subscribe(dead)
	d := letters.next(m, 1)
	again := d.Message
	id := messaging.NewRedriveID().String()
	again.Header = append(append([]transport.Header{}, d.Header...),
		transport.Header{Name: transport.HeaderRedriveID, Value: []byte(id)},
		transport.Header{Name: transport.HeaderRedriveCount, Value: []byte(strconv.Itoa(1))})
	k.confirmed(source, again)
	letters.ack(d)
	r := k.subscribe(source)
	got := r.next(m, 1)
	if diff := same(again, got.Message); diff != "" {
		k.Errorf("redriven: %s", diff)
	}
	f, err := transport.DecodeHeaders(got.Header)
	if err != nil || f.ID != m.ID || f.RedriveID.String() != id || f.RedriveCount != 1 {
		k.Errorf("redriven: %v, count %d", err, f.RedriveCount)
	}
	r.ack(got)
}
