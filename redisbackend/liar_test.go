package redisbackend_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// liar is a proxy before a server. It replaces the replies to scripts, each by any number of them.
type liar struct {
	addr        string
	connections atomic.Int64
	lie         atomic.Pointer[func(reply string) []string] // nil: it does not
}

// startLiar starts a proxy before a server, and ends it with the test.
func startLiar(t testing.TB, server string) *liar {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	t.Cleanup(func() { listener.Close() })
	l := &liar{addr: listener.Addr().String()}
	go func() {
		for {
			down, err := listener.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				down.Close()
				continue
			}
			l.between(down, up)
		}
	}()
	return l
}

// startQuietLiar returns a liar before a server of its own, and a client that has one connection
// through it. They use no socket, so they may live in a bubble.
func startQuietLiar(t *testing.T) (*liar, *redis.Client) {
	t.Helper()
	server := miniredis.NewMiniRedis()
	t.Cleanup(server.Close)
	l := new(liar)
	client := redis.NewClient(&redis.Options{
		Addr: "198.51.100.1:6379", // no name, which would be looked up
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			up, err := server.Dial()
			if err != nil {
				return nil, err
			}
			client, down := net.Pipe()
			l.between(down, up)
			return client, nil
		},
		ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 1,
	})
	t.Cleanup(func() { client.Close() })
	return l, client
}

// between passes on what a client and a server say, until either leaves.
func (l *liar) between(down, up net.Conn) {
	l.connections.Add(1)
	go func() {
		_, _ = io.Copy(up, down)
		up.Close()
	}()
	go func() {
		l.pass(down, bufio.NewReader(up))
		down.Close()
		up.Close()
	}()
}

// tell has l replace replies by lie; nil: it passes them on.
func (l *liar) tell(lie func(reply string) []string) {
	if lie == nil {
		l.lie.Store(nil)
		return
	}
	l.lie.Store(&lie)
}

// once has l replace the next reply.
func (l *liar) once(lie func(reply string) []string) {
	var told atomic.Bool
	l.tell(func(reply string) []string {
		if told.CompareAndSwap(false, true) {
			return lie(reply)
		}
		return []string{reply}
	})
}

var ofScript = regexp.MustCompile(`^\$\d+\r\n\d{10} `)

func (l *liar) pass(down io.Writer, up *bufio.Reader) {
	for {
		reply, err := readReply(up)
		if err != nil {
			return
		}
		replies := []string{reply}
		if lie := l.lie.Load(); lie != nil && ofScript.MatchString(reply) {
			replies = (*lie)(reply)
		}
		if _, err := io.WriteString(down, strings.Join(replies, "")); err != nil {
			return
		}
	}
}

// readReply reads a reply of any form.
func readReply(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil || len(line) < 3 {
		return "", io.ErrUnexpectedEOF
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=', '!':
		text := make([]byte, max(0, n+2))
		if n >= 0 {
			_, err = io.ReadFull(from, text)
		}
		return line + string(text), err
	case '*', '~', '>', '%':
		if line[0] == '%' {
			n *= 2
		}
		for range max(0, n) {
			part, err := readReply(from)
			if err != nil {
				return "", err
			}
			line += part
		}
	}
	return line, nil
}

// partsOf returns the parts of the string that a script replied: numbers and errors.
func partsOf(reply string) []string {
	_, body, _ := strings.Cut(strings.TrimSuffix(reply, "\r\n"), "\r\n")
	return strings.Split(body, " ")
}

// replyOf is the reply of a script of these parts.
func replyOf(parts ...string) string {
	body := strings.Join(parts, " ")
	return fmt.Sprintf("$%d\r\n%s\r\n", len(body), body)
}
