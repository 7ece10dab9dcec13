package config

// Ready checks what a relay needs besides a valid file: database.url, and the secrets and certificate files of the
// brokers that it serves. The error is an *Error with every finding. Values are not kept.
func (c *Config) Ready(file string) error {
	k := &checker{c: c, broken: map[string]bool{}}
	k.database()
	for name := range each(c.servedBrokers()) {
		k.readyBroker(name, c.Messaging.Brokers[name].ProducerIdentity)
	}
	if len(k.findings) == 0 {
		return nil
	}
	sortFindings(k.findings)
	return &Error{File: file, Findings: k.findings}
}

// ReadyBroker checks what connecting to one broker needs besides a valid file, for its producer or its consumer identity:
// certificate files and secrets. The error is an *Error with every finding. Values are not kept.
func (c *Config) ReadyBroker(name string, consumer bool) error {
	k := &checker{c: c, broken: map[string]bool{}}
	b := c.Messaging.Brokers[name]
	k.readyBroker(name, b.Identity(consumer))
	return c.Refusal(k.findings)
}

// Identity is the credential's name on one side; a consumer without one of its own shows the producer's.
func (b Broker) Identity(consumer bool) string {
	if consumer && b.ConsumerIdentity != "" {
		return b.ConsumerIdentity
	}
	return b.ProducerIdentity
}

func (k *checker) readyBroker(name, identity string) {
	b, at := k.c.Messaging.Brokers[name], join("messaging.brokers", name)
	k.tlsFiles(at+".tls", b.TLS)
	k.secret(identity)
	if b.Management != nil {
		k.tlsFiles(at+".management.tls", b.Management.TLS)
		k.secret(b.Management.Identity)
	}
}

func (c *Config) servedBrokers() map[string]bool {
	out := map[string]bool{}
	for _, s := range c.Served() {
		out[s.Broker] = true
	}
	return out
}

func (k *checker) database() {
	const at = "database.url"
	if k.c.Database.URL.IsZero() {
		k.find(at, "is missing; set %s, or write it into the file as env:NAME or file:PATH", VariableDatabase)
		return
	}
	if _, err := k.c.Database.URL.Resolve(); err != nil {
		k.find(at, "%s", err)
	}
}

// secret checks that the password of a credential can be fetched.
func (k *checker) secret(identity string) {
	cred, ok := k.c.Security.Credentials[identity]
	if !ok || cred.Password.IsZero() {
		return
	}
	if _, err := cred.Password.Resolve(); err != nil {
		k.find(join("security.credentials", identity)+".password", "%s", err)
	}
}

func (k *checker) tlsFiles(at string, t *TLS) {
	if _, err := k.c.TLSConfig(t); err != nil {
		k.find(at, "%s", err)
	}
}
