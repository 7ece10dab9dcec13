package rabbitmq

import "sync"

// signal wakes everybody who waits for a change. Take the channel first, look at
// the state, then wait: no change is missed.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait gives a channel that is closed by the next fire.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// fire wakes all. It costs next to nothing where nobody waits.
func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
