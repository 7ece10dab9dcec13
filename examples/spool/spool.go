package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/messaging/transport"
)

// Spool is the broker: adapters are its clients. It is safe for concurrent use.
type Spool struct {
	dir string
	// write stores a file durably. left tells, of a failure, whether something may have reached the disk.
	write func(path string, data []byte) (left bool, err error)

	mu      sync.Mutex // guards what follows
	places  map[string]*place
	last    uint64        // the number of the last message
	epoch   uint64        // of the last assignment
	changed chan struct{} // closed when something changes
}

// place is a queue: its messages in the order in which they were stored.
type place struct {
	dir     string
	waiting []*entry
}

// entry is a message that is not settled.
type entry struct {
	number      uint64
	failed      int
	redelivered bool
	due         time.Time
	holder      *consumer
	message     transport.Message
}

// record is what a file holds.
type record struct {
	Key     []byte             `json:"key,omitempty"`
	NullKey bool               `json:"nullKey,omitempty"`
	Value   []byte             `json:"value"`
	Null    bool               `json:"nullValue,omitempty"`
	Header  []transport.Header `json:"header"`
}

// Open makes the directory the broker. What an earlier process left in it is delivered again.
func Open(dir string) (*Spool, error) {
	s := &Spool{dir: dir, write: writeFile, places: map[string]*place{}, changed: make(chan struct{})}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the spool: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		p := &place{dir: filepath.Join(dir, e.Name())}
		if err := s.load(p); err != nil {
			return nil, fmt.Errorf("open the spool: %w", err)
		}
		s.places[e.Name()] = p
	}
	return s, nil
}

// Create makes a place. It is the administrator's side: an adapter never creates one.
func (s *Spool) Create(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := filepath.Join(s.dir, name)
	if filepath.Dir(dir) != filepath.Clean(s.dir) {
		return fmt.Errorf("create a place: %q is no name of a directory", name)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("create a place: %w", err)
	}
	s.places[name] = &place{dir: dir}
	return nil
}

// load reads the messages of an earlier process; anybody may have had them in hand.
func (s *Spool) load(p *place) error {
	files, err := os.ReadDir(p.dir) // sorted, and the names begin with the number
	if err != nil {
		return err
	}
	for _, f := range files {
		var number uint64
		var failed int
		if _, err := fmt.Sscanf(f.Name(), "%020d.%d.json", &number, &failed); err != nil {
			continue // a file that was not finished
		}
		data, err := os.ReadFile(filepath.Join(p.dir, f.Name()))
		if err != nil {
			return err
		}
		var r record
		if err := json.Unmarshal(data, &r); err != nil {
			return fmt.Errorf("%s is damaged: %w", f.Name(), err)
		}
		s.last = max(s.last, number)
		p.waiting = append(p.waiting, &entry{
			number: number, failed: failed, redelivered: true,
			message: transport.Message{Key: r.Key, NullKey: r.NullKey, Value: r.Value, NullValue: r.Null, Header: r.Header},
		})
	}
	return nil
}

// errNoPlace says that nobody created the place.
var errNoPlace = errors.New("no such place")

// store appends a message. left is as in Spool.write.
func (s *Spool) store(name string, m transport.Message) (number uint64, left bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[name]
	if p == nil {
		return 0, false, errNoPlace
	}
	data, err := json.Marshal(record{Key: m.Key, NullKey: m.NullKey, Value: m.Value, Null: m.NullValue, Header: m.Header})
	if err != nil {
		return 0, false, err
	}
	e := &entry{number: s.last + 1, message: m}
	if left, err := s.write(p.path(e), data); err != nil {
		return 0, left, err
	}
	s.last++
	p.waiting = append(p.waiting, e)
	s.tell()
	return e.number, true, nil
}

// path of an entry's file: its number, and how often it failed.
func (p *place) path(e *entry) string {
	return filepath.Join(p.dir, fmt.Sprintf("%020d.%d.json", e.number, e.failed))
}

// writeFile gives the file its name when it is whole and on the disk.
func writeFile(path string, data []byte) (left bool, err error) {
	f, err := os.OpenFile(path+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return false, err // without its name, nobody sees it
	}
	if err := os.Rename(path+".part", path); err != nil {
		return false, err
	}
	// From here on the message may be there, whatever comes.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return true, err
	}
	err = dir.Sync()
	if closed := dir.Close(); err == nil {
		err = closed
	}
	return true, err
}

// end removes an entry, and with it the message.
func (s *Spool) end(p *place, e *entry) error {
	if err := os.Remove(p.path(e)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(other *entry) bool { return other == e })
	s.tell()
	return nil
}

// again puts an entry back, at its old place in the order.
func (s *Spool) again(p *place, e *entry, counted bool, delay time.Duration) error {
	if counted {
		failed := *e
		failed.failed++
		if err := os.Rename(p.path(e), p.path(&failed)); err != nil {
			return err
		}
		e.failed++
	}
	e.holder, e.redelivered, e.due = nil, true, time.Now().Add(delay)
	if delay > 0 {
		time.AfterFunc(delay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tell()
		})
	}
	s.tell()
	return nil
}

// tell wakes whoever waits for a change. The spool is locked.
func (s *Spool) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Stored reads what a place holds, from the disk.
func (s *Spool) Stored(name string) ([]transport.Message, error) {
	on := &Spool{}
	p := &place{dir: filepath.Join(s.dir, name)}
	if err := on.load(p); err != nil {
		return nil, err
	}
	ms := make([]transport.Message, len(p.waiting))
	for i, e := range p.waiting {
		ms[i] = e.message
	}
	return ms, nil
}

func position(place string, number uint64) string {
	return strings.Join([]string{"spool:" + place, strconv.FormatUint(number, 10)}, "/")
}
