package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/xds"
	"github.com/weir-go/weir/gateway/descriptors"
)

// XDS says which server has the limits by descriptors. With the zero XDS files have them.
type XDS struct {
	Address   string // host:port, or a unix socket, as in unix:/run/xds.sock
	Node      string // for whom the limits are
	CA        string // in PEM, the authorities of the server; "": the connection is not encrypted
	Cert, Key string // in PEM, of this client
	Name      string // which the certificate of the server has; "": the host of Address
	State     string // the file that keeps the last version that was taken; "": none
}

func (x XDS) mistakes() (errs []error) {
	if x.Address == "" {
		if x != (XDS{}) {
			errs = append(errs, errors.New("--node and the flags that begin with --xds- are for a management server: "+
				"name it by --xds, or leave them out"))
		}
		return errs
	}
	if _, port, err := net.SplitHostPort(x.Address); !strings.HasPrefix(x.Address, "unix:") && (err != nil || port == "") {
		errs = append(errs, fmt.Errorf("--xds must be a host and a port, such as envoy-gateway:18001 (got %q)", x.Address))
	}
	if x.Node == "" {
		errs = append(errs, errors.New("--xds needs --node, the name under which the server has limits: "+
			"Envoy Gateway has envoy-ratelimit"))
	}
	if (x.Cert == "") != (x.Key == "") {
		errs = append(errs, errors.New("a certificate has two files: name both --xds-tls-cert and --xds-tls-key"))
	}
	if (x.Cert != "" || x.Name != "") && x.CA == "" {
		errs = append(errs, errors.New("--xds-tls-cert and --xds-tls-name need --xds-tls-ca: "+
			"without it no connection is encrypted"))
	}
	if x.State != "" {
		if info, err := os.Stat(filepath.Dir(x.State)); err != nil || !info.IsDir() {
			errs = append(errs, fmt.Errorf("--xds-state must be a file in a directory that exists (got %q)", x.State))
		}
	}
	return errs
}

// tls reads the files as they are now.
func (x XDS) tls() (*tls.Config, error) {
	config, err := outgoing{CA: x.CA, Cert: x.Cert, Key: x.Key}.config()
	if err == nil {
		config.ServerName = x.Name
	}
	return config, err
}

// subscribe returns a service whose limits a server has, and the client that asks for them. The
// files of TLS must be there, as those of a listener.
func (x XDS) subscribe(o descriptors.Options) (*descriptors.Service, *xds.Client, error) {
	service, err := descriptors.New(descriptors.Awaited(), o)
	if err != nil {
		return nil, nil, err
	}
	config := xds.Config{
		Address: x.Address, Node: x.Node, State: x.State, Service: service, Logger: o.Logger,
	}
	if x.CA != "" {
		if _, err := x.tls(); err != nil {
			return nil, nil, err
		}
		config.TLS = x.tls
	}
	return service, xds.New(config), nil
}
