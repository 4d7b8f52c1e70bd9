package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/weir-go/weir/redisbackend"
)

// RedisAccess names files that say how to connect to Redis. With the zero RedisAccess all is as
// the URL says.
type RedisAccess struct {
	CA           string // in PEM, the authorities of the server; "": those of the system
	Cert, Key    string // in PEM, of this client; read again for each connection
	PasswordFile string // read again for each connection
}

func (a RedisAccess) mistakes(address string) (errs []error) {
	if a == (RedisAccess{}) {
		return nil
	}
	u, err := url.Parse(address)
	switch {
	case address == "":
		return []error{errors.New("--redis-tls-ca, --redis-tls-cert, --redis-tls-key and " +
			"--redis-password-file are for Redis: name it by --redis, or leave them out")}
	case err != nil:
		return nil // redisbackend reports it
	}
	if (a.Cert == "") != (a.Key == "") {
		errs = append(errs, errors.New(
			"a certificate has two files: name both --redis-tls-cert and --redis-tls-key"))
	}
	if (a.CA != "" || a.Cert != "") && u.Scheme != "rediss" {
		errs = append(errs, errors.New("--redis-tls-ca and --redis-tls-cert are for TLS: "+
			"write rediss:// in the URL of Redis"))
	}
	if _, both := u.User.Password(); both && a.PasswordFile != "" {
		errs = append(errs, errors.New(
			"the URL of Redis and --redis-password-file have a password each: leave out one"))
	}
	return errs
}

// open reads the files once, and returns how to connect to an address.
func (a RedisAccess) open(address string) (redisbackend.Access, error) {
	var access redisbackend.Access
	if a.CA != "" || a.Cert != "" {
		config, err := outgoing{CA: a.CA, Cert: a.Cert, Key: a.Key}.config()
		if err != nil {
			return access, err
		}
		access.TLS = config
	}
	if a.PasswordFile != "" {
		if _, err := a.password(); err != nil {
			return access, err
		}
		name := ""
		if u, err := url.Parse(address); err == nil {
			name = u.User.Username()
			if parameters := u.Query(); parameters.Has("master_name") {
				// the user before the host is that of Sentinels
				name = parameters.Get("username")
			}
		}
		access.Credentials = func(context.Context) (user, password string, err error) {
			password, err = a.password()
			return name, password, err
		}
	}
	return access, nil
}

// maxPassword is how many bytes a password may have. Tokens that expire have some thousands.
const maxPassword = 64 << 10

// password reads the file, without the end of its line.
func (a RedisAccess) password() (string, error) {
	f, err := os.Open(a.PasswordFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	if err != nil {
		return "", err
	}
	text = bytes.TrimRight(text, "\r\n")
	switch {
	case len(text) == 0:
		return "", fmt.Errorf("%s: has no password", a.PasswordFile)
	case len(text) > maxPassword:
		return "", fmt.Errorf("%s: a password has at most %d bytes", a.PasswordFile, maxPassword)
	}
	return string(text), nil
}
