package config

import (
	"reflect"
	"strconv"
	"strings"
)

// HardPayloadLimit is the largest payload that the database, the wire and the file allow, in bytes. It is fixed.
const HardPayloadLimit = 8 << 20

// Override is a limit that the file raises above its default; the relay logs each at start.
type Override struct {
	// Path is where it stands.
	Path string
	// Value and Default are in bytes, or count.
	Value, Default int64
	// Reason is the file's.
	Reason string
}

// limitRule is one entry of messaging.limits with what its tags say.
type limitRule struct {
	path          string
	value         int64 // 0: absent
	reason        string
	standard      int64
	low, high     int64
	text, highTxt string
	bytes         bool
}

func limitRules(l Limits) []limitRule {
	var out []limitRule
	v := reflect.ValueOf(l)
	for _, f := range fieldsOf(v.Type()) {
		low, high, _ := strings.Cut(f.Tag.Get("range"), "..")
		r := limitRule{path: "messaging.limits." + f.Tag.Get("yaml"), highTxt: low + " to " + high}
		switch limit := v.FieldByIndex(f.Index).Interface().(type) {
		case SizeLimit:
			r.bytes = true
			r.reason, r.standard = limit.Reason, sizeOf(f.Tag.Get("limit"))
			r.low, r.high = sizeOf(low), sizeOf(high)
			if limit.Value != nil {
				r.value, r.text = int64(*limit.Value), limit.Value.String()
			}
		case CountLimit:
			r.reason, r.standard = limit.Reason, countOf(f.Tag.Get("limit"))
			r.low, r.high = countOf(low), countOf(high)
			if limit.Value != nil {
				r.value, r.text = int64(*limit.Value), strconv.Itoa(*limit.Value)
			}
		}
		out = append(out, r)
	}
	return out
}

// standardText is the default as the file would hold it.
func (r limitRule) standardText() string {
	if r.bytes {
		return Size(r.standard).String()
	}
	return strconv.FormatInt(r.standard, 10)
}

func sizeOf(text string) int64 {
	s, err := ParseSize(text)
	if err != nil {
		panic("limit tag " + text + ": " + err.Error())
	}
	return int64(s)
}

func countOf(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic("limit tag " + text + ": " + err.Error())
	}
	return n
}

func (k *checker) limits() {
	for _, r := range limitRules(k.c.Messaging.Limits) {
		switch {
		case r.text == "" && (k.set(r.path) || r.reason != ""):
			k.find(r.path+".value", "is missing; write {value: …, reason: …}")
		case r.text == "":
		case r.value < r.low || r.value > r.high:
			k.find(r.path+".value", "%q is out of range (%s)", r.text, r.highTxt)
		case r.value > r.standard && strings.HasPrefix(r.path, "messaging.limits.header"):
			k.find(r.path+".value", "cannot be raised above %s in this version: table and wire hold the same limit", r.standardText())
		case r.value > r.standard && r.reason == "":
			k.find(r.path+".reason", "is missing; the limit is raised above its default, so say why (name the bench run)")
		}
	}
}

// Overrides lists the limits that the file raises, in the order of their paths.
func (c *Config) Overrides() []Override {
	var out []Override
	for _, r := range limitRules(c.Messaging.Limits) {
		if r.value > r.standard {
			out = append(out, Override{Path: r.path, Value: r.value, Default: r.standard, Reason: r.reason})
		}
	}
	logical := c.LogicalPayload()
	for name, dest := range each(c.Messaging.Destinations) {
		if dest.Payload.MaxBytes != nil && int64(*dest.Payload.MaxBytes) > logical {
			at := join("messaging.destinations", name) + ".payload.max-bytes"
			out = append(out, Override{Path: at, Value: int64(*dest.Payload.MaxBytes), Default: logical, Reason: dest.Payload.Reason})
		}
	}
	return out
}

// LogicalPayload is the payload limit of a destination that names none, in bytes.
func (c *Config) LogicalPayload() int64 {
	return int64(orDefault(c.Messaging.Limits.LogicalPayload.Value, Size(1<<20)))
}

// ProducerInFlight is how many messages of one producer may wait for the broker's answer.
func (c *Config) ProducerInFlight() int {
	return orDefault(c.Messaging.Limits.ProducerInFlight.Value, 1000)
}

// Handlers is how many handlers of one consumer may run at once.
func (c *Config) Handlers() int { return orDefault(c.Messaging.Limits.Handlers.Value, 16) }

// BatchMessages is how many messages one batch call may hold.
func (c *Config) BatchMessages() int { return orDefault(c.Messaging.Limits.M2BatchMessages.Value, 500) }

// BatchBytes is how many bytes the payloads of one batch call may have.
func (c *Config) BatchBytes() int {
	return int(orDefault(c.Messaging.Limits.M2BatchBytes.Value, Size(4<<20)))
}
