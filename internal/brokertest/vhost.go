package brokertest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Vhost is a RabbitMQ virtual host of one test's own: whatever is declared in it meets nobody else's, and all of it is
// deleted when the test ends.
type Vhost struct {
	// Name is the virtual host's name.
	Name string

	amqp *url.URL
	api  *url.URL
}

// NewVhost makes a virtual host on the shared server, RABBITMQ_URL_1 and RABBITMQ_API_1.
func NewVhost(t testing.TB) *Vhost {
	t.Helper()
	return NewVhostOn(t, Require(t, "RABBITMQ_URL_1"), Require(t, "RABBITMQ_API_1"))
}

// NewVhostOn makes a virtual host on the server with these addresses, both with the user and password of an
// administrator. The new host's quorum queues have as many replicas as the cluster has nodes.
func NewVhostOn(t testing.TB, amqpURL, apiURL string) *Vhost {
	t.Helper()
	v := &Vhost{Name: Name(t, "t-")}
	var err error
	if v.amqp, err = url.Parse(amqpURL); err != nil {
		t.Fatal("RabbitMQ's address is not a URL") // the parser's text may hold the password
	}
	if v.api, err = url.Parse(apiURL); err != nil {
		t.Fatal("the address of RabbitMQ's management API is not a URL")
	}
	v.amqp.Path = "/" + v.Name
	v.Call(t, http.MethodPut, "vhosts/"+v.Name, map[string]any{})
	t.Cleanup(func() { v.tryCall(http.MethodDelete, "vhosts/"+v.Name) })
	v.allow(t, v.amqp.User.Username(), ".*", ".*", ".*")
	return v
}

// URL is the AMQP address of the virtual host, with the administrator's user and password.
func (v *Vhost) URL() string { return v.amqp.String() }

// URLVia is URL with another host and port, those of a proxy.
func (v *Vhost) URLVia(addr string) string {
	u := *v.amqp
	u.Host = addr
	return u.String()
}

// URLFor is URL for another user.
func (v *Vhost) URLFor(user, password string) string {
	u := *v.amqp
	u.User = url.UserPassword(user, password)
	return u.String()
}

// Addr is the AMQP server's host and port.
func (v *Vhost) Addr() string { return v.amqp.Host }

// API is the address of the management API, with the administrator's user and password.
func (v *Vhost) API() string { return v.api.String() }

// Exchange declares a durable exchange of a kind: direct, topic, fanout or headers.
func (v *Vhost) Exchange(t testing.TB, name, kind string) {
	t.Helper()
	v.Call(t, http.MethodPut, "exchanges/"+v.Name+"/"+url.PathEscape(name), map[string]any{"type": kind, "durable": true})
}

// Queue declares a durable quorum queue. Arguments are added to it; another "x-queue-type" makes another kind.
func (v *Vhost) Queue(t testing.TB, name string, arguments map[string]any) {
	t.Helper()
	all := map[string]any{"x-queue-type": "quorum"}
	maps.Copy(all, arguments)
	v.Call(t, http.MethodPut, "queues/"+v.Name+"/"+url.PathEscape(name), map[string]any{"durable": true, "arguments": all})
}

// DeleteQueue deletes a queue with all that is in it.
func (v *Vhost) DeleteQueue(t testing.TB, name string) {
	t.Helper()
	v.Call(t, http.MethodDelete, "queues/"+v.Name+"/"+url.PathEscape(name), nil)
}

// Purge empties a queue; what consumers hold unacknowledged stays.
func (v *Vhost) Purge(t testing.TB, name string) {
	t.Helper()
	v.Call(t, http.MethodDelete, "queues/"+v.Name+"/"+url.PathEscape(name)+"/contents", nil)
}

// Bind leads what is published to exchange under key into queue.
func (v *Vhost) Bind(t testing.TB, exchange, queue, key string) {
	t.Helper()
	path := fmt.Sprintf("bindings/%s/e/%s/q/%s", v.Name, url.PathEscape(exchange), url.PathEscape(queue))
	v.Call(t, http.MethodPost, path, map[string]any{"routing_key": key})
}

// Unbind takes back what Bind did.
func (v *Vhost) Unbind(t testing.TB, exchange, queue, key string) {
	t.Helper()
	v.Call(t, http.MethodDelete, fmt.Sprintf("bindings/%s/e/%s/q/%s/%s", v.Name, url.PathEscape(exchange), url.PathEscape(queue), url.PathEscape(key)), nil)
}

// Policy sets a policy for the queues whose names match the pattern.
func (v *Vhost) Policy(t testing.TB, name, pattern string, definition map[string]any) {
	t.Helper()
	v.Call(t, http.MethodPut, "policies/"+v.Name+"/"+url.PathEscape(name), map[string]any{"pattern": pattern, "definition": definition, "apply-to": "queues"})
}

// User makes a user with these rights in the virtual host, each a regular expression over names, and deletes it when the
// test ends. An empty expression allows nothing.
func (v *Vhost) User(t testing.TB, configure, write, read string) (user, password string) {
	t.Helper()
	user, password = Name(t, "u-"), "secret-"+v.Name[len(v.Name)-6:]
	v.Password(t, user, password)
	t.Cleanup(func() { v.tryCall(http.MethodDelete, "users/"+user) })
	v.allow(t, user, configure, write, read)
	return user, password
}

// Password sets the password of a user, as a rotation does. Connections that are open stay open.
func (v *Vhost) Password(t testing.TB, user, password string) {
	t.Helper()
	v.Call(t, http.MethodPut, "users/"+user, map[string]any{"password": password, "tags": ""})
}

func (v *Vhost) allow(t testing.TB, user, configure, write, read string) {
	t.Helper()
	v.Call(t, http.MethodPut, "permissions/"+v.Name+"/"+user,
		map[string]any{"configure": configure, "write": write, "read": read})
}

// Ready counts the messages in a queue that no consumer holds, as the broker knows it now.
func (v *Vhost) Ready(t testing.TB, queue string) int {
	t.Helper()
	conn, err := amqp.Dial(v.URL())
	if err != nil {
		t.Fatalf("count messages: %v", err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatalf("count messages: %v", err)
	}
	state, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatalf("count messages: %v", err)
	}
	return state.Messages
}
