package rabbitmq

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
)

func TestWireKeepsTheBytesInOrder(t *testing.T) {
	near, far := net.Pipe()
	w := newWire(near, near, func() {})
	var want bytes.Buffer
	for i := range 1000 {
		b := bytes.Repeat([]byte{byte(i)}, i%70+1)
		want.Write(b)
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.position(); got != uint64(want.Len()) {
		t.Errorf("position %d, want %d", got, want.Len())
	}
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("the bytes differ (%v)", err)
	}
	_ = w.Close()
	<-w.done
	_ = far.Close()
}

func TestWireNeverBlocksAndKnowsWhatWasNeverOffered(t *testing.T) {
	near, far := net.Pipe() // nobody reads: the first write to it stands still
	drained := make(chan struct{}, 1)
	w := newWire(near, near, func() { drained <- struct{}{} })
	first := make([]byte, wireMark)
	_, _ = w.Write(first)
	one := make([]byte, 1)
	if _, err := far.Read(one); err != nil { // now the first write is at the socket
		t.Fatal(err)
	}
	second := w.position()
	_, _ = w.Write(make([]byte, wireMark))
	if !w.full() {
		t.Error("not full with a whole buffer behind a socket that stands still")
	}
	if w.unsent(second) {
		t.Error("unsent is said while it may still be offered")
	}
	_ = w.Close()
	<-w.done
	if !w.unsent(second) {
		t.Error("the second message was never offered, and that is not known")
	}
	if w.unsent(0) || w.unsent(wirePiece-1) {
		t.Error("the first piece was offered, and is called unsent")
	}
	if _, err := w.Write(one); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	_ = far.Close()
}

func TestWireSaysWhenThereIsRoomAgain(t *testing.T) {
	near, far := net.Pipe()
	drained := make(chan struct{}, 1)
	w := newWire(near, near, func() { drained <- struct{}{} })
	_, _ = w.Write(make([]byte, wireMark))
	if _, err := io.ReadFull(far, make([]byte, wireMark)); err != nil {
		t.Fatal(err)
	}
	<-drained
	if w.full() {
		t.Error("full after everything was taken")
	}
	_ = w.Close()
	<-w.done
	_ = far.Close()
}
