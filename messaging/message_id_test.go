package messaging_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/messaging"
)

const idText = "01890a5d-ac96-774b-bcce-b302099a8057"

func TestNewMessageIDIsCanonicalAndAscends(t *testing.T) {
	t.Parallel()
	last := messaging.NewMessageID()
	for range 1000 {
		id := messaging.NewMessageID()
		a, b := last.UUID(), id.UUID()
		if bytes.Compare(a[:], b[:]) >= 0 {
			t.Fatal("an id does not come after the one before it")
		}
		back, err := messaging.ParseMessageID(id.String())
		if err != nil || back != id {
			t.Fatalf("back %v, %v", back, err)
		}
		last = id
	}
}

func TestParseMessageIDRefusesEveryOtherForm(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"empty":       "",
		"zero":        uuid.Nil.String(),
		"version 4":   "9b2c1f9e-5a3d-4f5e-8a1b-2c3d4e5f6a7b",
		"variant":     "01890a5d-ac96-774b-3cce-b302099a8057",
		"upper case":  strings.ToUpper(idText),
		"braces":      "{" + idText + "}",
		"urn":         "urn:uuid:" + idText,
		"no hyphens":  strings.ReplaceAll(idText, "-", ""),
		"not hex":     strings.Replace(idText, "0", "g", 1),
		"space":       idText + " ",
		"hyphen off":  "01890a5da-c96-774b-bcce-b302099a8057",
		"same length": strings.Repeat("x", 36),
	} {
		id, err := messaging.ParseMessageID(s)
		if !errors.Is(err, messaging.ErrValidation) || !id.IsZero() {
			t.Errorf("%s: %v, %v", name, id, err)
		} else if s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("%s: the error quotes the text: %v", name, err)
		}
	}
}

func TestMessageIDText(t *testing.T) {
	t.Parallel()
	id, err := messaging.ParseMessageID(idText)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]messaging.MessageID{"id": id})
	if err != nil || string(data) != `{"id":"`+idText+`"}` {
		t.Errorf("%s, %v", data, err)
	}
	var back map[string]messaging.MessageID
	if err := json.Unmarshal(data, &back); err != nil || back["id"] != id {
		t.Errorf("back %v, %v", back, err)
	}
	if _, err := json.Marshal(messaging.MessageID{}); err == nil {
		t.Error("the zero id has a text")
	}
	if s := (messaging.MessageID{}).String(); s != "" {
		t.Errorf("the zero id prints %q", s)
	}
	if _, err := messaging.MessageIDFromUUID(uuid.New()); !errors.Is(err, messaging.ErrValidation) {
		t.Errorf("a version 4 from a driver: %v", err)
	}
}

func TestOperationIDs(t *testing.T) {
	t.Parallel()
	redrive, replay := messaging.NewRedriveID(), messaging.NewReplayID()
	if back, err := messaging.ParseRedriveID(redrive.String()); err != nil || back != redrive {
		t.Errorf("redrive id: %v", err)
	}
	if back, err := messaging.ParseReplayID(replay.String()); err != nil || back != replay {
		t.Errorf("replay id: %v", err)
	}
	for _, s := range []string{"", uuid.Nil.String(), "x"} {
		if _, err := messaging.ParseRedriveID(s); !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("redrive id: error %v", err)
		}
		if _, err := messaging.ParseReplayID(s); !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("replay id: error %v", err)
		}
		if _, err := messaging.ParseCausationID(s); !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("causation id: error %v", err)
		}
	}
	if !(messaging.RedriveID{}).IsZero() || (messaging.RedriveID{}).String() != "" || (messaging.ReplayID{}).String() != "" {
		t.Error("a zero operation id prints something")
	}
}

func FuzzParseMessageID(f *testing.F) {
	f.Add(idText)
	f.Add(strings.ToUpper(idText))
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := messaging.ParseMessageID(s); err == nil && id.String() != s {
			t.Fatalf("%q was read as %q", s, id)
		}
	})
}
