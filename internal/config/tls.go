package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSConfig makes the client configuration of a tls entry; nil for none, which is plain text. Files are read now, so a
// wrong one is found at start; the client certificate is read again at each handshake, so that a renewed one needs no
// restart. Errors name the file, never its content.
func (c *Config) TLSConfig(t *TLS) (*tls.Config, error) {
	if !secured(t) {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pool, err := readAuthorities(c.Path(t.CA))
		if err != nil {
			return nil, fmt.Errorf("ca %s: %w", t.CA, err)
		}
		out.RootCAs = pool
	}
	if t.Certificate != "" {
		certificate := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.Path(t.Certificate), c.Path(t.Key))
			if err != nil {
				return nil, fmt.Errorf("certificate %s with key %s: %w", t.Certificate, t.Key, withoutPath(err))
			}
			return &pair, nil
		}
		if _, err := certificate(); err != nil {
			return nil, err
		}
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() }
	}
	if !t.VerifyHostName {
		chainOnly(out)
	}
	return out, nil
}

func readAuthorities(name string) (*x509.CertPool, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("the file holds no PEM certificate")
	}
	return pool, nil
}

// chainOnly checks the certificate's chain and not its name.
func chainOnly(c *tls.Config) {
	c.InsecureSkipVerify = true // the check follows, without the name
	c.VerifyConnection = func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.RootCAs, Intermediates: between})
		return err
	}
}
