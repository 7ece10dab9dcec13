package rabbitmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

const (
	// managementAnswer bounds what is read of one answer.
	managementAnswer = 8 << 20
	// managementQueues is the most queues behind one endpoint that are looked at;
	// of more nothing is proved.
	managementQueues = 64
	// managementTimeout bounds one request.
	managementTimeout = 10 * time.Second
)

// errAbsent says that the API answered, and the object is not there.
var errAbsent = errors.New("not found")

// management asks the management HTTP API, reading only.
type management struct {
	cfg    Management
	vhost  string
	client *http.Client
}

// newManagement gives nil where no API is configured.
func newManagement(c *Config) *management {
	if c.Management.URL == "" {
		return nil
	}
	return &management{cfg: c.Management, vhost: c.VHost, client: &http.Client{
		Timeout:   managementTimeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: c.Management.TLS, MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second},
		// A redirect would carry the password elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (m *management) close() {
	if m != nil {
		m.client.CloseIdleConnections()
	}
}

// look sees the queues behind an endpoint. An absent exchange or queue is a proof
// of nothing, and no error.
func (m *management) look(ctx context.Context, k proofKey) (proof, error) {
	names, known, err := m.queues(ctx, k)
	if errors.Is(err, errAbsent) {
		return proof{}, nil
	}
	if err != nil || !known || len(names) > managementQueues {
		return proof{}, err
	}
	queues := make([]queueView, len(names))
	for i, name := range names {
		err := m.get(ctx, &queues[i], "queues", m.vhost, name)
		if errors.Is(err, errAbsent) {
			return proof{}, nil
		}
		if err != nil {
			return proof{}, err
		}
	}
	return judge(k, queues), nil
}

// queues gives the names of the queues that may take a message.
func (m *management) queues(ctx context.Context, k proofKey) ([]string, bool, error) {
	if k.exchange == "" { // the default exchange leads to the queue of that name
		return []string{k.routingKey}, !k.perMessage, nil
	}
	var exchange exchangeView
	if err := m.get(ctx, &exchange, "exchanges", m.vhost, k.exchange); err != nil {
		return nil, false, err
	}
	var bindings []bindingView
	if err := m.get(ctx, &bindings, "exchanges", m.vhost, k.exchange, "bindings", "source"); err != nil {
		return nil, false, err
	}
	names, known := reachable(k, &exchange, bindings)
	return names, known, nil
}

// get reads one object. Errors carry no secret: the password travels in a header.
func (m *management) get(ctx context.Context, into any, path ...string) error {
	const op = "ask rabbitmq management api"
	password, err := m.cfg.Password(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w: read password: %w", op, messaging.ErrAuthentication, err)
	}
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	address := strings.TrimSuffix(m.cfg.URL, "/") + "/api/" + strings.Join(path, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("%s: %w: url is not valid", op, messaging.ErrConfiguration)
	}
	request.SetBasicAuth(m.cfg.Username, password)
	response, err := m.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", op, messaging.ErrBrokerUnavailable, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return errAbsent
	case http.StatusUnauthorized:
		return fmt.Errorf("%s: %w: status 401", op, messaging.ErrAuthentication)
	case http.StatusForbidden:
		return fmt.Errorf("%s: %w: status 403", op, messaging.ErrAuthorization)
	default:
		return fmt.Errorf("%s: %w: status %d", op, messaging.ErrBrokerUnavailable, response.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, managementAnswer)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w: answer is not the expected json", op, messaging.ErrBrokerUnavailable)
	}
	return nil
}
