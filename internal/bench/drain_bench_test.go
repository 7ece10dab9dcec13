package bench

import (
	"os"
	"testing"
	"time"
)

// BenchmarkDrain drains b.N rows into a broker that confirms at once, and into one that needs 2 ms:
//
//	go test ./internal/bench -run - -bench Drain/once -benchtime 100000x -cpuprofile cpu.out
func BenchmarkDrain(b *testing.B) {
	b.Run("once", func(b *testing.B) { benchmarkDrain(b, &sink{}) })
	b.Run("2ms", func(b *testing.B) { benchmarkDrain(b, &sink{delay: 2 * time.Millisecond}) })
}

func benchmarkDrain(b *testing.B, s *sink) {
	database := os.Getenv("PG_URL_17")
	if database == "" {
		b.Skip("not measured: PG_URL_17 is not set")
	}
	p, err := newPlace(b.Context(), database, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := p.drop(); err != nil {
			b.Error(err)
		}
	}()
	o := Options{Rows: b.N}
	o.setDefaults()
	run := &bench{o: o, place: p, report: newReport(&o)}
	d, err := run.drainOnce(b.Context(), run.plain(Setting{Batch: 1000, InFlight: 1000}, s))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(d.rate, "msg/s")
	b.ReportMetric(d.wal, "WAL-B/msg")
	b.ReportMetric(micro(d.relay), "relay-µs/msg")
	b.ReportMetric(micro(d.server), "server-µs/msg")
}
