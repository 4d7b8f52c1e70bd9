package serve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// outgoing names files in PEM that say how to connect to a server by TLS.
type outgoing struct {
	CA        string // the authorities of the server; "": those of the system
	Cert, Key string // of this client, which are read again for each connection; "": none
}

// config reads the files once.
func (o outgoing) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		text, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", o.CA)
		}
	}
	if o.Cert != "" {
		if _, err := o.certificate(nil); err != nil {
			return nil, err
		}
		config.GetClientCertificate = o.certificate
	}
	return config, nil
}

func (o outgoing) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", o.Cert, o.Key, err)
	}
	return &pair, nil
}
