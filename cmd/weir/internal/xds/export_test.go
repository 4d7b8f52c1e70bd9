package xds

import (
	"context"
	"net"
)

// DialBy has c connect by dial.
func (c *Client) DialBy(dial func(context.Context) (net.Conn, error)) {
	c.dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
}
