package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (k *checker) credentials() {
	for name, cred := range each(k.c.Security.Credentials) {
		at := join("security.credentials", name)
		k.name(at, name, 120)
		switch cred.Mechanism {
		case "":
		case OAuthBearer:
			k.find(at+".mechanism", "OAUTHBEARER is not available in this version")
		case External:
			if cred.Username != "" || !cred.Password.IsZero() {
				k.find(at, "EXTERNAL proves itself by the broker's client certificate; leave username and password out")
			}
		default:
			if cred.Username == "" {
				k.find(at+".username", "is missing; %s needs it", cred.Mechanism)
			}
			if cred.Password.IsZero() {
				k.find(at+".password", "is missing; %s needs it, as env:NAME or file:PATH", cred.Mechanism)
			}
		}
	}
	k.uniqueTexts("security.baggage", k.c.Security.Baggage)
	k.uniqueTexts("security.tenants", k.c.Security.Tenants)
}

func (k *checker) brokers() {
	for name, b := range each(k.c.Messaging.Brokers) {
		at := join("messaging.brokers", name)
		k.name(at, name, 120)
		if (b.Kind == NATS || b.Kind == Pulsar) && !slices.Contains(k.c.kinds, string(b.Kind)) {
			k.find(at+".kind", "%s is experimental and not part of this program", b.Kind)
			continue
		}
		if b.Experimental {
			k.find(at+".experimental", "%s is a stable broker; leave it out", b.Kind)
		}
		k.seeds(at, b)
		k.tls(at+".tls", b.TLS)
		k.identities(at, name, b)
		switch b.Kind {
		case Kafka:
			if b.VHost != "" {
				k.find(at+".vhost", "Kafka has no virtual hosts")
			}
			if b.Management != nil {
				k.find(at+".management", "Kafka has no management API; it is asked itself")
			}
		case RabbitMQ:
			k.management(at+".management", b)
		}
	}
}

func (k *checker) seeds(at string, b Broker) {
	if k.set(at+".seeds") && len(b.Seeds) == 0 {
		k.find(at+".seeds", "is empty; write at least one host:port")
	}
	for i, seed := range b.Seeds {
		place := at + ".seeds[" + strconv.Itoa(i) + "]"
		if strings.Contains(seed, "://") || strings.Contains(seed, "@") {
			k.find(place, "must be host:port alone, without scheme, user and password; the identity names the credential")
			continue
		}
		host, port, err := net.SplitHostPort(seed)
		n, numberErr := strconv.Atoi(port)
		if err != nil || host == "" || numberErr != nil || n < 1 || n > 65535 {
			k.find(place, "must be host:port, such as kafka-1:9092, with a port of 1 to 65535")
		}
	}
	k.uniqueTexts(at+".seeds", b.Seeds)
}

func (k *checker) uniqueTexts(at string, texts []string) {
	for i, text := range texts {
		for j := range i {
			if texts[j] == text {
				k.find(at+"["+strconv.Itoa(i)+"]", "stands in the list twice")
			}
		}
	}
}

func (k *checker) tls(at string, t *TLS) {
	if t == nil {
		return
	}
	if (t.Certificate == "") != (t.Key == "") {
		k.find(at, "certificate and key go together; one of them is missing")
	}
	if k.guarded() && !t.VerifyHostName {
		k.find(at+".verify-host-name", "host names are always checked in %s", k.c.Messaging.Environment)
	}
}

// secured tells whether connections use TLS.
func secured(t *TLS) bool { return t != nil && t.Enabled }

func (k *checker) identities(at, name string, b Broker) {
	if b.Kind == RabbitMQ && b.ProducerIdentity == "" && k.publishes(name) {
		k.find(at+".producer-identity", "is missing; RabbitMQ always asks who connects")
	}
	producer := k.identity(at+".producer-identity", b.ProducerIdentity, b)
	consumer := k.identity(at+".consumer-identity", b.ConsumerIdentity, b)
	switch {
	case !k.guarded():
		if k.c.Messaging.Environment == Development && !secured(b.TLS) && (producer == Plain || consumer == Plain) {
			k.warn(at+".tls", "passwords of PLAIN travel readable without TLS")
		}
		return
	case b.ProducerIdentity != "" && b.ProducerIdentity == b.ConsumerIdentity:
		k.find(at+".consumer-identity", "must differ from producer-identity in %s", k.c.Messaging.Environment)
	}
	if !secured(b.TLS) {
		k.find(at+".tls", "TLS is needed in %s", k.c.Messaging.Environment)
	}
	if b.ProducerIdentity == "" && k.publishes(name) {
		k.find(at+".producer-identity", "is missing; broker authentication is needed in %s", k.c.Messaging.Environment)
	}
	if b.ConsumerIdentity == "" && k.consumes(name) {
		k.find(at+".consumer-identity", "is missing; broker authentication is needed in %s", k.c.Messaging.Environment)
	}
}

func (k *checker) publishes(broker string) bool {
	for _, dest := range k.c.Messaging.Destinations {
		if dest.Broker == broker {
			return true
		}
	}
	return len(k.c.Messaging.Destinations) == 0
}

func (k *checker) consumes(broker string) bool {
	for _, consumer := range k.c.Messaging.Consumers {
		if k.c.Messaging.Destinations[consumer.Destination].Broker == broker {
			return true
		}
	}
	return false
}

// identity checks one credential of a broker and gives its mechanism.
func (k *checker) identity(at, name string, b Broker) Mechanism {
	if name == "" {
		return ""
	}
	cred, ok := reference(k, at, name, "security.credentials", k.c.Security.Credentials)
	if !ok {
		return ""
	}
	if b.Kind == RabbitMQ && (cred.Mechanism == ScramSHA256 || cred.Mechanism == ScramSHA512) {
		k.find(at, "RabbitMQ does not know %s; use PLAIN or EXTERNAL", cred.Mechanism)
	}
	if cred.Mechanism == External && (!secured(b.TLS) || b.TLS.Certificate == "") {
		k.find(at, "EXTERNAL needs tls with certificate and key")
	}
	return cred.Mechanism
}

func (k *checker) management(at string, b Broker) {
	m := b.Management
	if m == nil {
		return
	}
	k.tls(at+".tls", m.TLS)
	if m.URL != "" {
		u, err := url.Parse(m.URL)
		switch {
		case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
			k.find(at+".url", "must be http://host:port or https://host:port")
		case u.User != nil || u.RawQuery != "":
			k.find(at+".url", "must not hold user, password or query; identity names the credential")
		case k.guarded() && u.Scheme != "https":
			k.find(at+".url", "TLS is needed in %s; write https://", k.c.Messaging.Environment)
		}
	}
	if m.Identity == "" {
		k.find(at+".identity", "is missing; the management API always asks who connects")
		return
	}
	cred, ok := reference(k, at+".identity", m.Identity, "security.credentials", k.c.Security.Credentials)
	if ok && cred.Mechanism != Plain && cred.Mechanism != "" {
		k.find(at+".identity", "the management API takes a PLAIN credential")
	}
}
