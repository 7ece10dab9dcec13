package config

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server that has a certificate of an unknown authority, or for another name, is refused; without verify-host-name the
// authority still counts.
func TestTLSChecksAuthorityAndName(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused handshakes
	server.StartTLS()                                   // for 127.0.0.1 and example.com
	defer server.Close()
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"ca.pem":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		"empty.pem": []byte("no certificate\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &Config{dir: dir}
	for name, row := range map[string]struct {
		t     TLS
		fails string
	}{
		"authority and name":           {TLS{Enabled: true, CA: "ca.pem", VerifyHostName: true}, ""},
		"another name":                 {TLS{Enabled: true, CA: "ca.pem", VerifyHostName: true, ServerName: "kafka-1"}, "certificate is valid for"},
		"a name that is expected":      {TLS{Enabled: true, CA: "ca.pem", VerifyHostName: true, ServerName: "example.com"}, ""},
		"another name, not verified":   {TLS{Enabled: true, CA: "ca.pem", ServerName: "kafka-1"}, ""},
		"unknown authority":            {TLS{Enabled: true, VerifyHostName: true}, "unknown authority"},
		"unknown authority, name free": {TLS{Enabled: true, ServerName: "kafka-1"}, "unknown authority"},
	} {
		settings, err := c.TLSConfig(&row.t)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if settings.ServerName == "" {
			settings.ServerName = "127.0.0.1" // as a client takes it from the address
		}
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), settings)
		if err == nil {
			_ = conn.Close()
		}
		if (err != nil) != (row.fails != "") || err != nil && !strings.Contains(err.Error(), row.fails) {
			t.Errorf("%s: %v, want %q", name, err, row.fails)
		}
	}
	for _, wrong := range []TLS{{Enabled: true, CA: "empty.pem"}, {Enabled: true, CA: "absent.pem"}, {Enabled: true, Certificate: "ca.pem", Key: "absent.pem"}} {
		if _, err := c.TLSConfig(&wrong); err == nil || strings.Contains(err.Error(), dir) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if settings, err := c.TLSConfig(&TLS{}); settings != nil || err != nil {
		t.Errorf("without TLS: %v, %v", settings, err)
	}
}
