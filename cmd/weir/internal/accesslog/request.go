package accesslog

import (
	"bytes"
	"net/netip"
	"strconv"
)

// setAddress sets the address of the client, which may have a port. Of a list, as in
// X-Forwarded-For, it is the last: a client can write what stands before.
func (e *Entry) setAddress(text []byte) problem {
	text = bytes.TrimSpace(text[bytes.LastIndexByte(text, ',')+1:])
	addr, err := netip.ParseAddr(view(text))
	if err != nil {
		withPort, portErr := netip.ParseAddrPort(view(text))
		if portErr != nil {
			return noAddress
		}
		addr = withPort.Addr()
	}
	e.Address = addr.Unmap().WithZone("")
	return fine
}

// setRequestLine sets method and target by a request line such as GET / HTTP/1.1. What a
// client has sent that is no request line is answered before any limiter sees it.
func (e *Entry) setRequestLine(line []byte) problem {
	method, rest, ok := cutSpace(unescape(line))
	if !ok || !isMethod(method) {
		return noRequest
	}
	target := rest
	if i := bytes.LastIndex(rest, []byte(" HTTP/")); i >= 0 {
		target = rest[:i]
	} else if bytes.IndexByte(rest, ' ') >= 0 {
		return noRequest
	}
	return e.setRequest(method, target)
}

// setRequest sets method and target. A target with a scheme, as proxies are sent them and
// some balancers log them, loses scheme and host.
func (e *Entry) setRequest(method, target []byte) problem {
	if !isMethod(method) || len(target) == 0 {
		return noRequest
	}
	if target[0] != '/' && string(target) != "*" {
		i := bytes.Index(target, []byte("://"))
		if i < 0 {
			if string(method) != "CONNECT" {
				return noRequest
			}
			target = []byte("/")
		} else {
			target = target[i+3:]
			host := target
			if i := bytes.IndexByte(target, '/'); i >= 0 {
				host, target = target[:i], target[i:]
			} else {
				target = []byte("/")
			}
			if e.Host == "" {
				e.Host = view(host)
			}
		}
	}
	e.Method, e.Target = view(method), view(target)
	return fine
}

// isMethod reports whether s looks like a method: up to 20 capital letters.
func isMethod(s []byte) bool {
	for _, c := range s {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 20 && s[0] != '-'
}

// unescape undoes what servers do to quotes and control characters: \", \\ and \x16.
func unescape(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	clean := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			c = s[i]
			if c == 'x' && i+2 < len(s) {
				if n, err := strconv.ParseUint(view(s[i+1:i+3]), 16, 8); err == nil {
					c, i = byte(n), i+2
				}
			}
		}
		clean = append(clean, c)
	}
	return clean
}

func readStatus(s []byte) int {
	status, err := strconv.Atoi(view(s))
	if err != nil || status < 0 || status > 999 {
		return 0
	}
	return status
}

func readSize(s []byte) int64 {
	size, err := strconv.ParseInt(view(s), 10, 64)
	if err != nil || size < 0 {
		return 0
	}
	return size
}
