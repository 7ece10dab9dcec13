package spool

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/messagingtest"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// The adapter keeps the contract of all adapters. What cannot happen to a directory is listed as not applicable, and
// nothing is left unproved.
func TestContract(t *testing.T) {
	t.Parallel()
	report := messagingtest.RunContract(t, subject)
	if len(report.Failed)+len(report.NotProved) > 0 {
		t.Errorf("the report:\n%s", report)
	}
	for _, of := range []string{
		"normal publish", "reject", "ambiguity", "normal consume", "handler failure", "redelivery", "retry exhausted", "DLQ confirm",
		"redrive identity", "ordering scope", "payload limit", "header policy", "schema failure", "ACL", "graceful shutdown",
		"cardinality",
	} {
		if !slices.Contains(report.Proved, of) {
			t.Errorf("%s is not proved", of)
		}
	}
}

// subject is a spool of its own for one step.
func subject(tb testing.TB) messagingtest.Subject {
	s, err := Open(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return messagingtest.Subject{
		Adapter: NewAdapter(s, false), MaxBytes: MaxBytes,
		Place: func(name messaging.DestinationName) transport.Endpoint {
			if err := s.Create(string(name)); err != nil {
				tb.Fatal(err)
			}
			return endpoint(name)
		},
		Nowhere: func() transport.Endpoint { return endpoint("nowhere") },
		Stored: func(e transport.Endpoint) []transport.Message {
			ms, err := s.Stored(queueOf(e))
			if err != nil {
				tb.Fatal(err)
			}
			return ms
		},
		Inject: func(f messagingtest.Fault) (func(), error) { return s.inject(f) },
		As: func(d messagingtest.Denial) (transport.Adapter, error) {
			if d == messagingtest.NoRight {
				return NewAdapter(s, true), nil
			}
			return nil, messagingtest.ErrNoSuchFailure // a directory knows neither passwords nor certificates
		},
	}
}

func endpoint(name messaging.DestinationName) transport.Endpoint {
	return transport.Endpoint{Name: name, Physical: map[string]string{"queue": string(name)}}
}

// inject breaks the disk. A spool has no connection that could be cut and no answer that could get lost.
func (s *Spool) inject(f messagingtest.Fault) (undo func(), err error) {
	left := false
	switch f.Kind {
	case messagingtest.Nack: // the disk is full
	case messagingtest.Cut: // the disk fails after the file has its name
		left = true
	default:
		return nil, messagingtest.ErrNoSuchFailure
	}
	met, struck := 0, 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write = func(path string, data []byte) (bool, error) {
		if !strings.Contains(path, "/"+f.Destination+"/") {
			return writeFile(path, data)
		}
		if met++; met <= f.After || f.Count > 0 && struck >= f.Count {
			return writeFile(path, data)
		}
		struck++
		return left, errors.New("the disk failed")
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.write = writeFile
	}, nil
}

// What was not settled when the process ended is delivered by the next one, under its id and with its count.
func TestSpoolOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Create("orders"); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"a", "b"} {
		if _, _, err := s.store("orders", transport.Message{Value: []byte(value), Header: []transport.Header{{Name: "msg.id", Value: []byte(value)}}}); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	p := s.places["orders"]
	if err := s.end(p, p.waiting[0]); err != nil {
		t.Error(err)
	}
	if err := s.again(p, p.waiting[0], true, 0); err != nil {
		t.Error(err)
	}
	s.mu.Unlock()

	next, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	left := next.places["orders"].waiting
	if len(left) != 1 || string(left[0].message.Value) != "b" || left[0].failed != 1 || !left[0].redelivered {
		t.Fatalf("the next process has %+v", left)
	}
	if number, _, err := next.store("orders", transport.Message{Value: []byte("c")}); err != nil || number != 3 {
		t.Errorf("the next message has number %d, %v", number, err)
	}
}
