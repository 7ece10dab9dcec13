package acceptance

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
)

// A database that is away is asked again with growing pauses, by every part of the relay together a few times a second at
// most; the log stays short, no row pays, and work goes on when it is back.
func TestB43_AMissingDatabaseIsNotHammered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false))
	w.patient()
	proxy := brokertest.NewProxy(t, w.databaseAddress())
	w.env = []string{"RELAY_DATABASE_URL=" + w.databaseURL(proxy.Addr())}
	first := w.insert(kafkaDestination, 50, 5)
	p := w.start()
	brokertest.Eventually(t, 20*time.Second, "the first rows to be sent", func() bool { return w.sent(first) == 50 })

	proxy.Down()
	attempts, open := refuseAt(t, proxy.Addr())
	waiting := w.insert(kafkaDestination, 50, 5)
	lines := strings.Count(p.out.String(), "\n")
	seconds := count(60, 10)
	<-time.After(time.Duration(seconds) * time.Second) // the length of the outage
	tried, logged := int(attempts.Load()), strings.Count(p.out.String(), "\n")-lines
	t.Logf("in %d s without database: %d connection attempts, %d log lines", seconds, tried, logged)
	if most := 10 + seconds/3; tried >= most {
		t.Errorf("%d connection attempts in %d s, want fewer than %d", tried, seconds, most)
	}
	if most := max(seconds, 20); logged > most {
		t.Errorf("%d log lines in %d s, want at most %d", logged, seconds, most)
	}
	open()
	proxy.Up(t)
	brokertest.Eventually(t, 10*time.Second, "the waiting rows to be sent", func() bool { return w.sent(waiting) == 50 })
	w.oneAttemptEach()
	if !p.alive() {
		t.Error("the relay ended")
	}
}

// refuseAt accepts what connects to the address, counts it and hangs up, until end is called.
func refuseAt(t *testing.T, addr string) (attempts *atomic.Int64, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	attempts, done := &atomic.Int64{}, make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			attempts.Add(1)
			_ = c.Close()
		}
	}()
	end = func() {
		_ = l.Close()
		<-done
	}
	t.Cleanup(end)
	return attempts, end
}
