package config

// Ready checks what a relay needs besides a valid file: database.url, and the secrets and certificate files of the
// brokers that it serves. The error is an *Error with every finding. Values are not kept.
func (c *Config) Ready(file string) error {
	k := &checker{c: c, broken: map[string]bool{}}
	k.database()
	for name := range each(c.servedBrokers()) {
		b := c.Messaging.Brokers[name]
		at := join("messaging.brokers", name)
		k.tlsFiles(at+".tls", b.TLS)
		k.secret(b.ProducerIdentity)
		if b.Management != nil {
			k.tlsFiles(at+".management.tls", b.Management.TLS)
			k.secret(b.Management.Identity)
		}
	}
	if len(k.findings) == 0 {
		return nil
	}
	sortFindings(k.findings)
	return &Error{File: file, Findings: k.findings}
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
