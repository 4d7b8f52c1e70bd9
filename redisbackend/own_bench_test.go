package redisbackend

import (
	"context"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// atOnce is a client whose server answers at once: one taking by one limit is allowed.
type atOnce struct {
	redis.Scripter
	reply []byte
}

func (c *atOnce) Process(_ context.Context, cmd redis.Cmder) error {
	now := strconv.FormatInt(time.Now().UnixMicro(), 10)
	c.reply = append(c.reply[:0], "$53\r\n"...)
	c.reply = strconv.AppendInt(c.reply, cmd.Args()[4].(int64), 10)
	c.reply = append(append(c.reply, ' '), now...)
	c.reply = append(append(append(c.reply, " 1 "...), now...), " 5000 0\r\n"...)
	_, err := cmd.(io.Writer).Write(c.reply)
	return err
}

// BenchmarkOwn measures what a plain decision costs besides the client and the server.
func BenchmarkOwn(b *testing.B) {
	backend := MustNewBare(new(atOnce), BareOptions{HashTag: "one"})
	limit := limits.TokenBucket(limits.PerSecond(10), 10)
	charges := []backends.Charge{{Scope: "scope", Key: "198.51.100.7", Limit: limit, Cost: 1}}
	out := make([]limits.Decision, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := backend.Take(context.Background(), charges, out); err != nil {
			b.Fatal(err)
		}
	}
}
