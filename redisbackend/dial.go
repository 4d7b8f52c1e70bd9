package redisbackend

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A pool of go-redis that has failed to dial as often as its size takes its server for dead. It
// then dials once a second, and replies its last error in between, even if Sentinel leads to
// another server by now. The breaker knows better when to ask. So a dial by this dialer never
// fails: it returns a connection on which everything fails, with the error of the dial.

// dialer is the Dialer of the clients that Open makes.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// dialerOf returns a dialer by the options of a client. A timeout of 0 is the one of go-redis.
func dialerOf(timeout time.Duration, secured *tls.Config) dialer {
	const defaultTimeout = 5 * time.Second
	dial := redis.NewDialer(&redis.Options{
		DialTimeout: cmp.Or(timeout, defaultTimeout), TLSConfig: secured,
	})
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return failed{undialed{err}}, nil
		}
		return conn, nil
	}
}

// failed is a connection that could not be made. A pool may keep one for later, if it has a
// MinIdleConns, and asks by SyscallConn whether it still works, but not on Windows.
type failed struct{ err undialed }

var _ syscall.Conn = failed{}

func (f failed) SyscallConn() (syscall.RawConn, error) { return nil, f.err }

func (f failed) Read([]byte) (int, error)         { return 0, f.err }
func (f failed) Write([]byte) (int, error)        { return 0, f.err }
func (f failed) Close() error                     { return nil }
func (f failed) LocalAddr() net.Addr              { return new(net.TCPAddr) }
func (f failed) RemoteAddr() net.Addr             { return new(net.TCPAddr) }
func (f failed) SetDeadline(time.Time) error      { return nil }
func (f failed) SetReadDeadline(time.Time) error  { return nil }
func (f failed) SetWriteDeadline(time.Time) error { return nil }

// undialed is the error of a dial, around which go-redis takes one layer away.
type undialed struct{ error }

func (u undialed) Unwrap() error { return u.error }
