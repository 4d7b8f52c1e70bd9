package core
import "context"

func defaultMemory() Backend { return nil }

type scratch struct{charges []Charge; decisions []Decision; fallback []int}
func (l *Limiter[R]) Decide(ctx context.Context, r R) Outcome { panic(0) }
