package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Target is what a fault strikes.
type Target string

// The targets. A relay's own link to the database is "relay"'s with the fault's number.
const (
	Relay    Target = "relay"    // the process
	Link     Target = "link"     // one relay's connections to the database
	Database Target = "database" // all relays' connections to it
	Kafka    Target = "kafka"
	Rabbit   Target = "rabbit"
	Rows     Target = "rows"
	// The servers themselves, those of the run's own.
	PostgresServer Target = "postgres server"
	KafkaServer    Target = "kafka server"
	RabbitServer   Target = "rabbitmq server"
)

// Kind is what a fault does.
type Kind string

// The kinds. What has a duration is undone after it.
const (
	Kill    Kind = "kill"    // SIGKILL; started again after the duration
	Pause   Kind = "pause"   // SIGSTOP, SIGCONT
	Stop    Kind = "stop"    // SIGTERM; started again after the duration
	Cut     Kind = "cut"     // every connection, once
	Down    Kind = "down"    // cut, and refused meanwhile
	Stall   Kind = "stall"   // nothing flows in either direction, and flows on afterwards
	Silence Kind = "silence" // nothing comes back meanwhile, and comes afterwards
	Deaf    Kind = "deaf"    // what comes back is lost; cut afterwards
	Swallow Kind = "swallow" // what is sent is lost; cut afterwards
	Delay   Kind = "delay"   // a latency in both directions
	Unbind  Kind = "unbind"  // RabbitMQ refuses the messages of one destination as unroutable
	Lock    Kind = "lock"    // someone holds the locks of unpublished rows
)

// All is the number of a fault that strikes every relay.
const All = -1

// Fault is one thing that breaks.
type Fault struct {
	Target Target
	Kind   Kind
	Number int // of the relay, or All; 0 elsewhere
	// After the step's begin, and for how long.
	After, For time.Duration
}

func (f Fault) String() string {
	who := string(f.Target)
	switch {
	case f.Target != Relay && f.Target != Link:
	case f.Number == All:
		who += " all"
	default:
		who += fmt.Sprint(" ", f.Number+1)
	}
	text := fmt.Sprintf("%s %s %v", f.Kind, who, f.For)
	if f.After > 0 {
		text += fmt.Sprintf(" (after %v)", f.After)
	}
	return text
}

// Step is some faults at once, and the rest before them.
type Step struct {
	Rest   time.Duration
	Faults []Fault
}

func (s Step) String() string {
	faults := make([]string, len(s.Faults))
	for i, f := range s.Faults {
		faults[i] = f.String()
	}
	return fmt.Sprintf("rest %v, then %s", s.Rest, strings.Join(faults, " + "))
}

// length of a step: until its last fault is undone.
func (s Step) length() time.Duration {
	var longest time.Duration
	for _, f := range s.Faults {
		longest = max(longest, f.After+f.For)
	}
	return s.Rest + longest
}

// Plan is the nemesis's schedule. The same seed makes the same one.
type Plan []Step

func (p Plan) String() string {
	var b strings.Builder
	var at time.Duration
	for _, s := range p {
		fmt.Fprintf(&b, "  %7v  %s\n", at, s)
		at += s.length()
	}
	return b.String()
}

// Length of the whole plan.
func (p Plan) Length() (d time.Duration) {
	for _, s := range p {
		d += s.length()
	}
	return d
}

// planner draws steps.
type planner struct {
	r      *rand.Rand
	relays int
	lease  time.Duration
	own    bool
}

// NewPlan draws a schedule that lasts about as long as asked for. own says that the servers are the run's own: they are
// killed and paused too.
func NewPlan(seed uint64, length time.Duration, relays int, lease time.Duration, own bool) Plan {
	p := planner{r: rand.New(rand.NewPCG(seed, 0x7e1a)), relays: relays, lease: lease, own: own} // it must be repeatable
	var plan Plan
	for total := time.Duration(0); total < length; total += plan[len(plan)-1].length() {
		s := Step{Rest: p.between(100, 1500)}
		if p.r.IntN(3) == 0 {
			s.Faults = p.combination()
		} else {
			for range 1 + p.r.IntN(2) {
				s.Faults = p.another(s.Faults)
			}
		}
		plan = append(plan, s)
	}
	return plan
}

func (p *planner) between(low, high int) time.Duration {
	return time.Duration(low+p.r.IntN((high-low)/10+1)*10) * time.Millisecond
}

// brief is shorter than a lease, long is longer.
func (p *planner) brief() time.Duration { return p.between(100, int(p.lease.Milliseconds()*2/3)) }

func (p *planner) long() time.Duration {
	return p.between(int(p.lease.Milliseconds()), int(p.lease.Milliseconds()*2))
}

func (p *planner) either() time.Duration {
	if p.r.IntN(2) == 0 {
		return p.brief()
	}
	return p.long()
}

// another fault, of something that is well yet.
func (p *planner) another(faults []Fault) []Fault {
	for {
		f := p.single()
		if !slices.ContainsFunc(faults, func(o Fault) bool { return o.excludes(f) || f.excludes(o) }) {
			return append(faults, f)
		}
	}
}

// excludes tells of faults that cannot be at once: two of one thing, and what needs a server that is not there.
func (f Fault) excludes(o Fault) bool {
	return f.Target == o.Target || (f.Target == RabbitServer && o.Kind == Unbind)
}

func half(d time.Duration) time.Duration { return (d / 2).Truncate(10 * time.Millisecond) }

func (p *planner) one() int { return p.r.IntN(p.relays) }

func (p *planner) broker() Target {
	if p.r.IntN(2) == 0 {
		return Kafka
	}
	return Rabbit
}

func (p *planner) single() Fault {
	switch n := p.r.IntN(26); {
	case n < 4:
		return Fault{Target: Relay, Kind: Kill, Number: p.one(), For: p.brief()}
	case n < 7:
		return Fault{Target: Relay, Kind: Pause, Number: p.one(), For: p.either()}
	case n < 8:
		return Fault{Target: Relay, Kind: Stop, Number: p.one(), For: p.brief()}
	case n < 11:
		return p.network(Link, p.one())
	case n < 13:
		return p.network(Database, 0)
	case n < 18:
		return p.network(p.broker(), 0)
	case n < 19:
		return Fault{Target: Rows, Kind: Lock, For: p.brief()}
	case n < 21 || !p.own:
		return Fault{Target: Rabbit, Kind: Unbind, For: p.either()}
	default:
		return p.server()
	}
}

// server draws what may happen to a server itself.
func (p *planner) server() Fault {
	f := Fault{Target: []Target{PostgresServer, KafkaServer, RabbitServer}[p.r.IntN(3)], Kind: Kill, For: p.brief()}
	if p.r.IntN(2) == 0 {
		f.Kind, f.For = Pause, p.either()
	}
	return f
}

// network draws what may happen to connections.
func (p *planner) network(t Target, number int) Fault {
	kinds := []Kind{Cut, Down, Stall, Silence, Deaf, Swallow, Delay}
	f := Fault{Target: t, Kind: kinds[p.r.IntN(len(kinds))], Number: number}
	if f.Kind != Cut {
		f.For = p.either()
	}
	return f
}

// combination draws faults that hurt most together.
func (p *planner) combination() []Fault {
	if p.own && p.r.IntN(3) == 0 {
		return p.serverCombination()
	}
	broker, d := p.broker(), p.brief()
	switch p.r.IntN(6) {
	case 0: // rows are stored, nobody hears of it, and their relay dies
		return []Fault{{Target: broker, Kind: Silence, For: d}, {Target: Relay, Kind: Kill, Number: p.one(), After: half(d), For: p.brief()}}
	case 1: // the whole fleet dies in the middle of its work
		return []Fault{{Target: broker, Kind: Deaf, For: d}, {Target: Relay, Kind: Kill, Number: All, After: half(d), For: p.brief()}}
	case 2: // rows wait for their key, and the relay that sends them at last dies
		return []Fault{
			{Target: Rabbit, Kind: Unbind, For: d},
			{Target: Relay, Kind: Kill, Number: p.one(), After: d + p.between(50, 300), For: p.brief()},
			{Target: Rabbit, Kind: Silence, After: d, For: p.between(300, 900)},
		}
	case 3: // it sleeps through its lease with rows at the broker, which is silent when it wakes
		return []Fault{{Target: broker, Kind: Silence, For: p.long()}, {Target: Relay, Kind: Pause, Number: p.one(), After: 100 * time.Millisecond, For: p.long()}}
	case 4: // an outcome waits for a row's lock while its relay loses the lease
		d := p.long()
		return []Fault{{Target: Rows, Kind: Lock, For: d}, {Target: Relay, Kind: Pause, Number: p.one(), After: 100 * time.Millisecond, For: d + p.brief()}}
	default: // the database forgets some while a broker does
		return []Fault{{Target: Database, Kind: Deaf, For: d}, {Target: broker, Kind: Cut, After: half(d)}, {Target: Relay, Kind: Kill, Number: p.one(), After: half(d), For: p.brief()}}
	}
}

// serverCombination draws faults of servers and others together.
func (p *planner) serverCombination() []Fault {
	broker, server, d := Kafka, KafkaServer, p.brief()
	if p.r.IntN(2) == 0 {
		broker, server = Rabbit, RabbitServer
	}
	switch p.r.IntN(6) {
	case 0: // a broker dies with what it has confirmed, and a relay with what it has heard
		return []Fault{{Target: server, Kind: Kill, For: d}, {Target: Relay, Kind: Kill, Number: p.one(), After: half(d), For: p.brief()}}
	case 1: // a broker stands still, and so does the relay that waits for it
		return []Fault{{Target: server, Kind: Pause, For: p.long()}, {Target: Relay, Kind: Pause, Number: p.one(), After: half(d), For: p.long()}}
	case 2: // nobody can record what the broker has confirmed
		return []Fault{{Target: broker, Kind: Silence, For: d}, {Target: PostgresServer, Kind: Kill, After: half(d), For: p.brief()}}
	case 3: // all leases end while the database stands still, and a relay dies with its outcomes
		return []Fault{{Target: PostgresServer, Kind: Pause, For: p.long()}, {Target: Relay, Kind: Kill, Number: p.one(), After: half(d), For: p.brief()}}
	case 4: // nothing is left
		return []Fault{
			{Target: KafkaServer, Kind: Kill, For: d},
			{Target: RabbitServer, Kind: Kill, For: d},
			{Target: PostgresServer, Kind: Kill, For: d},
			{Target: Relay, Kind: Kill, Number: All, For: d},
		}
	default: // an outcome waits at a server that stands still while its relay sleeps through the lease
		return []Fault{
			{Target: Rabbit, Kind: Unbind, For: p.long()},
			{Target: PostgresServer, Kind: Pause, After: half(d), For: p.long()},
			{Target: Relay, Kind: Pause, Number: p.one(), After: half(d), For: p.long()},
		}
	}
}
