package redisbackend

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
)

// settlement is endings that one call of the script settles.
type settlement struct {
	of    []*settling
	keys  []string
	args  []any
	reply *redis.Cmd
}

// settle settles endings, by one call for each partition.
func (b *Backend) settle(ctx context.Context, all []*settling) {
	calls := b.settlements(all)
	b.sendSettlements(ctx, calls)
	// A Cluster rejects a call for keys of several slots, or of a slot that is just being
	// moved. Such a call has settled nothing, so its endings are sent apart.
	var apart []*settlement
	for _, c := range calls {
		crosses := redis.HasErrorPrefix(c.reply.Err(), "CROSSSLOT")
		if crosses {
			learnSlots(&b.lanes.partitioner, b.client)
		}
		if len(c.of) == 1 || !crosses && !redis.HasErrorPrefix(c.reply.Err(), "TRYAGAIN") {
			c.answer()
			continue
		}
		for _, s := range c.of {
			apart = append(apart, b.newSettlement(s))
		}
	}
	if len(apart) > 0 {
		b.sendSettlements(ctx, apart)
		for _, c := range apart {
			c.answer()
		}
	}
}

// settlements makes the calls that settle some endings.
func (b *Backend) settlements(all []*settling) []*settlement {
	locate := b.lanes.partitioner.Load()
	by := make(map[any][]*settling)
	var order []any
	for _, s := range all {
		var partition any
		if locate != nil {
			partition, _, _ = (*locate)(s.name) // if it is unknown, the call fails
		}
		if by[partition] == nil {
			order = append(order, partition)
		}
		by[partition] = append(by[partition], s)
	}
	calls := make([]*settlement, len(order))
	for i, partition := range order {
		calls[i] = b.newSettlement(by[partition]...)
	}
	return calls
}

// newSettlement makes the call that settles some endings.
func (b *Backend) newSettlement(of ...*settling) *settlement {
	c := &settlement{of: of}
	for _, s := range of {
		c.keys = append(c.keys, s.name)
		kind := "r "
		if s.ending.Final > s.ending.Taken {
			kind = "c "
		}
		c.args = settleArguments(c.args, kind, s.limit, s.ending, 0)
	}
	if instant := b.instant(); instant != 0 {
		c.args = append(c.args, instant)
	}
	return c
}

// settleArguments appends the arguments of settle.lua for an ending, and the instant
// unless it is 0.
func settleArguments(to []any, kind string, limit *encoded, e *limits.Ending, instant int64) []any {
	text := append(make([]byte, 0, 64), kind...)
	if kind == "c " {
		text = strconv.AppendInt(text, e.Final-e.Taken, 10)
		text = strconv.AppendInt(append(text, ' '), max(0, e.Lasts.Microseconds()), 10)
	} else {
		text = strconv.AppendInt(text, e.Taken-e.Final, 10)
		text = strconv.AppendInt(append(text, ' '), e.Final, 10)
		at, serial := max(0, e.Ticket), int64(0)
		if kind == "r " {
			at, serial = at&ticketMask, at>>ticketBits
		}
		if text = strconv.AppendInt(append(text, ' '), at, 10); kind == "r " {
			text = strconv.AppendInt(append(text, ' '), serial, 10)
		}
	}
	if to = append(to, limit.text, string(text)); instant != 0 {
		to = append(to, instant)
	}
	return to
}

// answer sets what became of the endings of c.
func (c *settlement) answer() {
	reply, err := c.reply.Slice()
	if err == nil && len(reply) != len(c.of) {
		err = fmt.Errorf("the script replied to %d of %d endings", len(reply), len(c.of))
	}
	for i, s := range c.of {
		err := err
		var n int64
		if err == nil {
			switch v := reply[i].(type) {
			case int64:
				n = v
			case error:
				err = v
			default:
				err = fmt.Errorf("the script replied with a %T instead of a number", v)
			}
		}
		s.answered = true
		switch e := s.ending; {
		case err != nil:
			s.fail(err)
		case e.Final < e.Taken:
			s.out.Returned = n
		default:
			s.out.Charged, s.out.Forgiven = n, e.Final-e.Taken-n
		}
	}
}
