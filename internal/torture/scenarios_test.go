package torture

import (
	"slices"
	"time"
)

const ms = time.Millisecond

// scenarios are short directed schedules. Each makes again and again the situation for which a safeguard of the relay is
// there, so that a relay without it is seen to fail within seconds, whatever the seed.
func scenarios() map[string]Options {
	return map[string]Options{
		"calm":     {Plan: slices.Repeat(Plan{{Rest: 2 * time.Second}}, 4), Rate: 300},
		"crashes":  {Plan: slices.Repeat(crashes(), 3), Rate: 300},
		"sleepers": {Plan: slices.Repeat(sleepers(), 3), Rate: 300},
		"locks":    {Plan: slices.Repeat(locks(), 3), Rate: 300},
		"flaps":    {Plan: slices.Repeat(flaps(), 3), Rate: 400, Keys: 6, Patient: true, Backoff: 2 * time.Second},
		"hurry":    {Plan: slices.Repeat(hurry(), 6), Rate: 300, Keys: 3, Hurry: true, Patient: true, Backoff: 2 * time.Second},
	}
}

// crashes: rows are stored, nobody hears of it, and all relays die; then the same for rows that waited in the table; then
// the answers are lost.
func crashes() Plan {
	crash := func(broker Target) Step {
		return Step{Rest: 1500 * ms, Faults: []Fault{{Target: broker, Kind: Silence, For: 900 * ms}, {Target: Relay, Kind: Kill, Number: All, After: 500 * ms, For: 300 * ms}}}
	}
	return Plan{
		crash(Kafka),
		crash(Rabbit),
		{Rest: 3500 * ms, Faults: []Fault{
			{Target: Rabbit, Kind: Unbind, For: 1500 * ms},
			{Target: Rabbit, Kind: Silence, After: 2000 * ms, For: 900 * ms},
			{Target: Relay, Kind: Kill, Number: All, After: 2600 * ms, For: 300 * ms},
		}},
		{Rest: 500 * ms, Faults: []Fault{{Target: Rabbit, Kind: Deaf, For: 1600 * ms}}},
	}
}

// sleepers: all relays but one sleep through their leases with rows at brokers that do not answer, and wake to write
// outcomes that are no longer theirs to write.
func sleepers() Plan {
	s := Step{Rest: 1500 * ms, Faults: []Fault{{Target: Kafka, Kind: Silence, For: 6500 * ms}, {Target: Rabbit, Kind: Silence, For: 6500 * ms}}}
	for i := range 3 {
		s.Faults = append(s.Faults, Fault{Target: Relay, Kind: Pause, Number: i, After: 500 * ms, For: lease + 1500*ms})
	}
	return Plan{s}
}

// locks: outcomes that say doubt wait at the server for locked rows, their relays sleep, and their leases end meanwhile.
func locks() Plan {
	s := Step{Rest: 2500 * ms, Faults: []Fault{
		{Target: Kafka, Kind: Silence, For: 1500 * ms},
		{Target: Rabbit, Kind: Silence, For: 1500 * ms},
		{Target: Rows, Kind: Lock, After: 500 * ms, For: 4900 * ms},
	}}
	for i := range 3 {
		s.Faults = append(s.Faults, Fault{Target: Relay, Kind: Pause, Number: i, After: 1700 * ms, For: lease + 1500*ms})
	}
	return Plan{s}
}

// flaps: rows of one destination are refused for a moment, and while each waits for its next attempt the broker takes
// everything again.
func flaps() Plan {
	return slices.Repeat(Plan{{Rest: 700 * ms, Faults: []Fault{{Target: Rabbit, Kind: Unbind, For: 300 * ms}}}}, 8)
}

// hurry: rows have piled up, go out in one call, and are lost on their way; an operator makes all but their heads due.
func hurry() Plan {
	return Plan{{Rest: 1500 * ms, Faults: []Fault{
		{Target: Relay, Kind: Pause, Number: All, For: 1000 * ms},
		{Target: Rabbit, Kind: Swallow, After: 900 * ms, For: 1600 * ms},
	}}}
}
