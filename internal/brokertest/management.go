package brokertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// Call asks the management API for something on a path below /api/ and returns the answer's body. A body other than nil
// is sent as JSON. An answer other than 2xx fails the test.
func (v *Vhost) Call(t testing.TB, method, path string, body any) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), adminLimit)
	defer cancel()
	answer, err := v.call(ctx, method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// tryCall is for cleanup, when the test may have ended the server.
func (v *Vhost) tryCall(method, path string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _ = v.call(ctx, method, path, nil)
}

func (v *Vhost) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("management API: %s %s: %w", method, path, err)
		}
		sent = bytes.NewReader(encoded)
	}
	address := v.api.Scheme + "://" + v.api.Host + "/api/" + path
	request, err := http.NewRequestWithContext(ctx, method, address, sent)
	if err != nil {
		return nil, fmt.Errorf("management API: %s %s: %w", method, path, err)
	}
	password, _ := v.api.User.Password()
	request.SetBasicAuth(v.api.User.Username(), password)
	request.Header.Set("Content-Type", "application/json")
	response, err := managementClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("management API: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("management API: %s %s: %w", method, path, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("management API: %s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, nil
}

// managementClient keeps no connection, so that no goroutine outlives a test.
var managementClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// CloseConnections makes the broker close all connections of the virtual host, as an operator does, and returns how many
// it closed. A connection shows up in the management API up to 5 s after it was opened, so this waits for at least one.
func (v *Vhost) CloseConnections(t testing.TB) int {
	t.Helper()
	var names []string
	Eventually(t, adminLimit, "the management API lists a connection of the virtual host", func() bool {
		names = v.Connections(t)
		return len(names) > 0
	})
	for _, name := range names {
		v.tryCall(http.MethodDelete, "connections/"+url.PathEscape(name))
	}
	return len(names)
}

// Connections lists the virtual host's connections by the names that the management API gives them.
func (v *Vhost) Connections(t testing.TB) []string {
	t.Helper()
	var found []struct{ Name string }
	if err := json.Unmarshal(v.Call(t, http.MethodGet, "vhosts/"+v.Name+"/connections", nil), &found); err != nil {
		t.Fatalf("management API: list connections: %v", err)
	}
	names := make([]string, len(found))
	for i, connection := range found {
		names[i] = connection.Name
	}
	return names
}
