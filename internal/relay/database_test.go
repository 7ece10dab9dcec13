package relay

import (
	"errors"
	"testing"

	"github.com/backend-skeleton/relay/internal/outbox"
)

func TestWhatIsWrongWithTheDatabase(t *testing.T) {
	t.Parallel()
	var d database
	want := func(reason string) {
		t.Helper()
		got := ""
		if now := d.now(); now != nil {
			got = now.reason
		}
		if got != reason {
			t.Errorf("the reason is %q, want %q", got, reason)
		}
	}
	want("")
	d.failed("pump", 1, errors.New("a statement was cancelled"))
	want("")
	d.failed("pump", 3, errors.New("statements fail"))
	want(reasonFails)
	d.works("scout", false)
	want(reasonFails) // of another statement this says nothing
	d.works("pump", true)
	want("")

	d.failed("pump", 1, outbox.ErrReadOnly)
	want(reasonReadOnly)
	d.works("scout", false)
	want(reasonReadOnly)
	d.works("renewer", true)
	want("")

	d.failed("recorder", 1, outbox.ErrFull)
	d.failed("pump", 3, outbox.ErrUnreachable)
	want(reasonFull)
	d.works("renewer", true) // a heartbeat may need no room
	want(reasonFull)
	d.works("recorder", true)
	want("") // and the answer showed that it is there
	d.failed("recorder", 1, outbox.ErrDenied)
	want(reasonDenied)
}
