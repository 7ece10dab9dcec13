package messagingtest

import (
	"bytes"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// place is a topic or a queue.
type place struct {
	name   string
	topic  bool
	units  []*unit
	turn   int              // which partition is next for a message without key
	order  []*item          // everything that was ever stored
	seen   map[string]*item // by id, where the broker drops what it has already
	behind *item            // kept back, to come in behind the next one
}

// unit is a partition, or the whole of a queue.
type unit struct {
	name  string
	items []*item
}

// item is a stored message.
type item struct {
	unit   *unit
	offset int
	m      transport.Message
	due    time.Time // when it may be delivered first
	late   *fault    // what keeps it back behind the next one
}

// position is nil while the item has none yet.
func (i *item) position() *messaging.BrokerPosition {
	if i.late != nil {
		return nil
	}
	return &messaging.BrokerPosition{Broker: "memory", Text: "memory:" + i.unit.name + "/" + strconv.Itoa(i.offset)}
}

// store appends a message, unless the broker has it already and drops copies.
func (b *Broker) store(p *place, destination string, m transport.Message) *item {
	name := identity(m)
	if b.able.DeduplicatedPublish && name != "" && p.seen[name] != nil {
		return p.seen[name]
	}
	i := &item{m: clone(m)}
	if m.Delay > 0 {
		i.due = b.settings.clock.Now().Add(m.Delay)
		b.settings.clock.AfterFunc(m.Delay, b.wake)
	}
	p.seen[name] = i
	if p.behind == nil {
		if i.late = b.take(Reorder, destination, p); i.late != nil {
			i.unit, p.behind = p.unitOf(b, m), i
			return i
		}
	}
	b.append(p, i)
	if b.take(Duplicate, destination, p) != nil {
		b.append(p, &item{unit: i.unit, m: clone(m), due: i.due})
	}
	return i
}

// append puts an item at the end of its unit, and behind it the one that was kept back for it.
func (b *Broker) append(p *place, i *item) {
	if i.unit == nil {
		i.unit = p.unitOf(b, i.m)
	}
	i.offset = len(i.unit.items)
	i.unit.items = append(i.unit.items, i)
	p.order = append(p.order, i)
	if late := p.behind; late != nil && late.unit == i.unit {
		late.late, p.behind = nil, nil
		b.append(p, late)
	}
	b.tell()
}

// unitOf chooses the partition: by the key where the broker keeps keys together, else in turn.
func (p *place) unitOf(b *Broker, m transport.Message) *unit {
	if b.able.KeyedOrdering && !m.NullKey && m.Key != nil {
		h := fnv.New32a()
		_, _ = h.Write(m.Key)
		return p.units[h.Sum32()%uint32(len(p.units))]
	}
	p.turn++
	return p.units[p.turn%len(p.units)]
}

// identity is what a broker tells copies of one message by: a redriven message is another one.
func identity(m transport.Message) string {
	if m.ID.IsZero() {
		return ""
	}
	return m.ID.String() + " " + header(m, transport.HeaderRedriveID)
}

func header(m transport.Message, name string) string {
	for _, h := range m.Header {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// clone copies all that a caller could change.
func clone(m transport.Message) transport.Message {
	m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
	m.Header = slices.Clone(m.Header)
	for i := range m.Header {
		m.Header[i].Value = bytes.Clone(m.Header[i].Value)
	}
	return m
}

func (b *Broker) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tell()
}
