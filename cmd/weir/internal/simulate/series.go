package simulate

// widths are the widths of bars in seconds. Each is a multiple of the previous one, so that bars
// can be joined.
var widths = []int64{1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400,
	7 * 86400,
	28 * 86400, 364 * 86400}

// maxBars is the maximal number of bars of a time series.
const maxBars = 240

// series counts over time. Its bars widen as time goes on.
type series struct {
	width    int // index in widths
	bars     map[int64]int64
	min, max int64

	index int64 // index of the current bar
	count int64
}

// add adds n at a time.
func (s *series) add(at, n int64) {
	index := at / second / widths[s.width]
	if index == s.index && s.bars != nil {
		s.count += n
		return
	}
	s.put()
	s.index, s.count = at/second/widths[s.width], n // put may have widened the bars
}

// put appends the current bar.
func (s *series) put() {
	if s.bars == nil {
		s.bars = make(map[int64]int64)
	}
	if s.count == 0 {
		return
	}
	if len(s.bars) == 0 {
		s.min, s.max = s.index, s.index
	}
	s.min, s.max = min(s.min, s.index), max(s.max, s.index)
	s.bars[s.index] += s.count
	s.count = 0
	for s.max-s.min >= maxBars && s.width < len(widths)-1 {
		s.widen(s.width + 1)
	}
}

// widen joins bars.
func (s *series) widen(width int) {
	s.put()
	if width <= s.width {
		return
	}
	factor := widths[width] / widths[s.width]
	joined := make(map[int64]int64, len(s.bars)/int(min(factor, 8))+1)
	for index, n := range s.bars {
		joined[index/factor] += n
	}
	s.bars, s.width = joined, width
	s.min, s.max = s.min/factor, s.max/factor
	s.index = -1
}
