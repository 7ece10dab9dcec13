package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what a run came to: a line for each measure, a column for each setting.
type Report struct {
	Title []string // what was measured where
	Lines []*Line
	Notes []string

	settings []Setting
	serial   float64
	plain    []float64 // drain rates, which others are shares of
	keyless  []float64 // the same through Kafka
	spare    string    // how the in-memory Kafka is named
}

// Line is one measure.
type Line struct {
	Name      string
	Must, Aim string // goals, empty where there is none
	Values    []Value
}

// Value of one measure at one setting.
type Value struct {
	Text string
	// Below tells that the value does not reach the goal.
	Below bool
}

func newReport(o *Options) *Report {
	r := &Report{settings: o.Settings, plain: make([]float64, len(o.Settings)), keyless: make([]float64, len(o.Settings))}
	if len(o.Kafka) == 0 {
		r.spare = " (in-memory)"
	}
	return r
}

// about says where the numbers come from.
func (b *bench) about(ctx context.Context) error {
	m, s := readMachine(), b.place.server
	where := "on another machine"
	if s.postmaster != 0 {
		where = "on this machine"
	}
	b.report.Title = []string{
		fmt.Sprintf("PostgreSQL %s %s; %d cores; load before: %s", s.version, where, cores(), m.load),
		s.settings,
		fmt.Sprintf("payload %d B, headers %d B; %d rows a drain, median of %d", payloadBytes, len(headers), b.o.Rows, b.o.Repeat),
	}
	if !b.place.checkpoints {
		b.report.note("this user may not CHECKPOINT: the WAL includes page images")
	}
	if s.postmaster == 0 {
		b.report.note("the server's processes cannot be seen: no CPU of the server")
	}
	return ctx.Err()
}

func (r *Report) note(text string) { r.Notes = append(r.Notes, text) }

// line finds or makes a line.
func (r *Report) line(name, must, aim string) *Line {
	for _, l := range r.Lines {
		if l.Name == name {
			return l
		}
	}
	l := &Line{Name: name, Must: must, Aim: aim, Values: make([]Value, len(r.settings))}
	r.Lines = append(r.Lines, l)
	return l
}

func (l *Line) set(i int, below bool, format string, args ...any) {
	l.Values[i] = Value{Text: fmt.Sprintf(format, args...), Below: below}
}

func (r *Report) all(name, must, aim string, below bool, format string, args ...any) {
	l := r.line(name, must, aim)
	for i := range l.Values {
		l.set(i, below, format, args...)
	}
}

func (r *Report) floor(f floorRates) {
	r.serial = f.serial
	r.all("floor: read", "", "", false, "%.0f rows/s", f.read)
	r.all("floor: produce (in-memory Kafka)", "", "", false, "%.0f rows/s", f.produce)
	r.all("floor: mark", "", "", false, "%.0f rows/s", f.mark)
	r.all("serial floor, one after the other", "", "", false, "%.0f msg/s", f.serial)
}

func (r *Report) drain(i int, d drained) {
	r.plain[i] = d.rate
	r.line("drain, no-op broker", "", "").set(i, false, "%.0f msg/s", d.rate)
	if r.serial > 0 {
		share := d.rate / r.serial
		r.line("  share of the serial floor", "35 %", "55 %").set(i, share < 0.35, "%.0f %%", 100*share)
	}
	r.line("  WAL per message", "250 B", "110 B").set(i, d.wal > 250, "%.0f B", d.wal)
	total := d.server + d.relay
	if d.server > 0 {
		r.line("  CPU per message, server + relay", "30 µs", "20 µs").set(i, total > 30*time.Microsecond, "%.1f + %.1f = %.1f µs", micro(d.server), micro(d.relay), micro(total))
	} else {
		r.line("  CPU per message, relay alone", "", "").set(i, false, "%.1f µs", micro(d.relay))
	}
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// share sets a rate as a share of another one.
func (r *Report) share(i int, name, must, aim string, goal, rate, of float64) {
	if of > 0 {
		r.line(name, must, aim).set(i, rate < goal*of, "%.0f %%", 100*rate/of)
	}
}

func (r *Report) delayed(i int, d drained) {
	r.line("drain, broker needs 2 ms", "", "").set(i, false, "%.0f msg/s", d.rate)
	r.share(i, "  2 ms against no-op", "70 %", "90 %", 0.7, d.rate, r.plain[i])
}

// bare is how fast a broker's client publishes alone.
func (r *Report) bare(broker string, rate float64) {
	r.all("publish without a relay, "+broker, "", "", false, "%.0f msg/s", rate)
}

// possible is what a relay could reach that drains and publishes one after the other; 0 is not known.
func (r *Report) possible(i int, bare float64) float64 {
	if r.plain[i] == 0 {
		return 0
	}
	return 1 / (1/r.plain[i] + 1/bare)
}

func (r *Report) kafka(i int, hot bool, d drained, bare float64) {
	if hot {
		r.line("drain, Kafka"+r.spare+", one hot key", "", "").set(i, false, "%.0f msg/s", d.rate)
		r.share(i, "  Kafka, one hot key, against keyless", "25 %", "60 %", 0.25, d.rate, r.keyless[i])
		return
	}
	r.keyless[i] = d.rate
	r.line("drain, Kafka"+r.spare+", keyless", "", "").set(i, false, "%.0f msg/s", d.rate)
	r.share(i, "  Kafka, share of no-op and client, one after the other", "", "80 %", 0, d.rate, r.possible(i, bare))
	r.share(i, "  Kafka, share of the serial floor", "", "", 0, d.rate, r.serial)
}

func (r *Report) rabbit(i int, d drained, bare float64) {
	r.line("drain, RabbitMQ quorum queue", "", "").set(i, false, "%.0f msg/s", d.rate)
	r.share(i, "  RabbitMQ, share of no-op and client, one after the other", "", "80 %", 0, d.rate, r.possible(i, bare))
	r.share(i, "  RabbitMQ, share of the serial floor", "", "", 0, d.rate, r.serial)
}

// against sets a rate, and its share of another one.
func (r *Report) against(i int, name, share, must, aim string, goal, rate, of float64) {
	r.line(name, "", "").set(i, false, "%.0f msg/s", rate)
	r.share(i, share+": "+name[strings.LastIndex(name, ", ")+2:], must, aim, goal, rate, of)
}

func (r *Report) busy(i int, wrote, rate float64) {
	r.line(fmt.Sprintf("%d writers and a relay at once", writers), "", "").set(i, false, "%.0f tx/s, %.0f msg/s", wrote, rate)
}

func (r *Report) claims(i int, name string, without, with time.Duration) {
	times := float64(with) / float64(without)
	r.line(name, "2x", "1.2x").set(i, times > 2, "%.1f -> %.1f ms, %.1fx", micro(without)/1000, micro(with)/1000, times)
}

func (r *Report) memory(i, rows int, bytes uint64) {
	const mib = 1 << 20
	r.line(fmt.Sprintf("memory, drain of %d messages of 1 KB", rows), "256 MiB", "96 MiB").set(i, bytes > 256*mib, "%d MiB", bytes/mib)
}

func (r *Report) insert(bare, with float64) {
	lost := 1 - with/bare
	r.all(fmt.Sprintf("writer's transactions, %d writers", writers), "", "", false, "%.0f -> %.0f tx/s", bare, with)
	r.all("  lost by one outbox row", "25 %", "15 %", lost > 0.25, "%.0f %%", 100*lost)
}

func (r *Report) latency(i int, wake bool, l latencies) {
	p50, p99 := l.at(0.5), l.at(0.99)
	below := p50 > 10*time.Millisecond || p99 > 50*time.Millisecond
	name, aim := "commit to broker, 500 msg/s, wake-up, p50 / p99", "2 / 20 ms"
	if !wake {
		name, aim = "commit to broker, 500 msg/s, polling, p50 / p99", "- / 20 ms"
	}
	r.line(name, "10 / 50 ms", aim).set(i, below, "%.1f / %.1f ms", micro(p50)/1000, micro(p99)/1000)
}

func (r *Report) many(i int, d drained, idle float64) {
	r.line(fmt.Sprintf("drain, no-op broker, %d destinations", manyDestinations), "", "").set(i, false, "%.0f msg/s", d.rate)
	r.share(i, "  200 against one destination", "70 %", "85 %", 0.7, d.rate, r.plain[i])
	if d.server > 0 {
		r.line("  server's CPU for an idle relay", "3 % of a core", "1 %").set(i, idle > 0.03, "%.1f %%", 100*idle)
	}
}

func (r *Report) takeOver(i int, beyond time.Duration) {
	r.line("take-over after SIGKILL", "lease + 1 s", "+ 0.2 s").set(i, beyond > time.Second, "lease %+.2f s", beyond.Seconds())
}

// finish says what else the machine did meanwhile.
func (r *Report) finish(begin machine, _ server) {
	end := readMachine()
	took := end.at.Sub(begin.at)
	r.Title[0] += fmt.Sprintf(", after: %s; took %v", end.load, took.Round(time.Second))
}

// Write prints the table. A ! marks what does not reach the goal.
func (r *Report) Write(w io.Writer) error {
	for _, t := range r.Title {
		fmt.Fprintln(w, t)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"measure", "must", "aim"}
	for _, s := range r.settings {
		head = append(head, s.String())
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, l := range r.Lines {
		cells := []string{l.Name, l.Must, l.Aim}
		for _, v := range l.Values {
			text := v.Text
			if v.Below {
				text += " !"
			}
			cells = append(cells, text)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, n := range r.Notes {
		fmt.Fprintln(w, n)
	}
	_, err := fmt.Fprintln(w, "! does not reach the goal. Goals hold for large batches; compare within one run only.")
	return err
}
