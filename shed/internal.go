package shed

import (
	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/internal/http/shedgate"
)

// By these, adapters reach gates, and tests of this repository set algorithms.
func init() {
	shedgate.Open = func(shedder, config any) any {
		return shedder.(interface{ gate(config any) any }).gate(config)
	}
	shedlimit.New = func(options any, a shedlimit.Algorithm) (any, error) {
		return options.(interface {
			shedder(shedlimit.Algorithm) (any, error)
		}).shedder(a)
	}
}

func (s *Shedder[R]) gate(config any) any { return newGate(s, config.(shedgate.Config[R])) }

func (o Options[R]) shedder(a shedlimit.Algorithm) (any, error) { return newShedder(o, a) }
