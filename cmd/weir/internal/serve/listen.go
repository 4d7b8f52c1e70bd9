package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Socket says who may connect to unix sockets. The zero Socket leaves that to the umask.
type Socket struct {
	Mode  string // in octal, such as "0660"; "": 0660 with a Group, and that of the umask without one
	Group string // name or number; "": that of the process
}

// permissions are those of a Socket.
type permissions struct {
	mode  fs.FileMode
	group int
	set   bool // false: those of the umask
}

// parse returns the permissions of s, and every mistake in it.
func (s Socket) parse() (permissions, error) {
	p := permissions{mode: 0o660, group: -1, set: s != Socket{}}
	var errs []error
	if s.Mode != "" {
		mode, err := strconv.ParseUint(s.Mode, 8, 32)
		if err != nil || mode == 0 || mode > 0o777 {
			errs = append(errs, fmt.Errorf("--socket-mode must be octal, such as 0660 (got %q)", s.Mode))
		}
		p.mode = fs.FileMode(mode)
	}
	if s.Group != "" {
		number := s.Group
		if _, err := strconv.ParseUint(number, 10, 31); err != nil {
			group, err := user.LookupGroup(s.Group)
			if err != nil {
				return p, errors.Join(append(errs, fmt.Errorf(
					"--socket-group must be a group of this machine, or a number: %w", err))...)
			}
			number = group.Gid
		}
		p.group, _ = strconv.Atoi(number)
	}
	return p, errors.Join(errs...)
}

// listen listens on an address such as ":8080", or on a unix socket, as in
// "unix:/run/weir.sock".
func listen(address string, p permissions) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		return net.Listen("tcp", address)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil || !p.set {
		return l, err
	}
	if p.group >= 0 { // before the mode: the old group never gets what the new one may do
		err = os.Chown(path, -1, p.group)
	}
	if err == nil {
		err = os.Chmod(path, p.mode)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// removeStale removes a socket without a listener, which a process that was killed leaves.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s is there, and is no socket: name another path, or remove it", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("%s: another process listens there", path)
	case !errors.Is(err, syscall.ECONNREFUSED): // its process may be busy
		return fmt.Errorf("%s: another process may use it: %w", path, err)
	}
	return os.Remove(path)
}

// TLS names the files of a certificate. With the zero TLS connections are not encrypted.
type TLS struct {
	Cert, Key string // in PEM
	ClientCA  string // in PEM; clients need a certificate of it. "": they need none
}

func (t TLS) mistakes() (errs []error) {
	if (t.Cert == "") != (t.Key == "") {
		errs = append(errs, errors.New("a certificate has two files: name both --tls-cert and --tls-key"))
	}
	if t.ClientCA != "" && t.Cert == "" {
		errs = append(errs, errors.New(
			"--tls-client-ca needs --tls-cert and --tls-key: without them no connection is encrypted"))
	}
	return errs
}

// certificates reads the files of a TLS again when they change.
type certificates struct {
	files  TLS
	logger *slog.Logger
	read   [3][]byte // what is in force
	now    atomic.Pointer[tls.Config]
}

// newCertificates returns nil for the zero TLS.
func newCertificates(files TLS, logger *slog.Logger) (*certificates, error) {
	if files == (TLS{}) {
		return nil, nil
	}
	c := &certificates{files: files, logger: logger}
	_, err := c.load()
	return c, err
}

// load reads the files, and puts them into force if they have changed.
func (c *certificates) load() (changed bool, err error) {
	var read [3][]byte
	for i, name := range []string{c.files.Cert, c.files.Key, c.files.ClientCA} {
		if name == "" {
			continue
		}
		if read[i], err = os.ReadFile(name); err != nil {
			return false, err
		}
	}
	if c.now.Load() != nil && bytes.Equal(read[0], c.read[0]) && bytes.Equal(read[1], c.read[1]) &&
		bytes.Equal(read[2], c.read[2]) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(read[0], read[1])
	if err != nil {
		return false, fmt.Errorf("%s and %s: %w", c.files.Cert, c.files.Key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
	}
	if c.files.ClientCA != "" {
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !config.ClientCAs.AppendCertsFromPEM(read[2]) {
			return false, fmt.Errorf("%s has no certificate", c.files.ClientCA)
		}
	}
	c.read = read
	c.now.Store(config)
	return true, nil
}

// follow reads the files every ten seconds, and for each value of reload, until ctx ends.
func (c *certificates) follow(ctx context.Context, reload <-chan struct{}) {
	if c == nil {
		return
	}
	failed := ""
	for ticker := time.NewTicker(10 * time.Second); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
		case <-reload:
			failed = ""
		}
		changed, err := c.load()
		switch {
		case err != nil && err.Error() != failed:
			failed = err.Error()
			c.logger.Error("serve: the certificate in force stays", "error", err)
		case err == nil && changed:
			c.logger.Info("serve: another certificate is in force", "file", c.files.Cert)
			failed = ""
		case err == nil:
			failed = ""
		}
	}
}

// config returns the configuration of a listener, nil without certificates.
func (c *certificates) config() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load(), nil },
	}
}
