// Package hostname reads the Host field of requests, which tells pages apart after DNS rebinding:
// a foreign page in a browser asks under a name of its own, wherever that name leads.
package hostname

import (
	"net"
	"strings"
)

// Of returns host in lower case without its port, and an IPv6 address without brackets.
func Of(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return strings.ToLower(host)
}
