package limits

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/internal/ground/algorithm"
)

// Algorithm names the way in which a [Limit] counts.
type Algorithm uint8

// The algorithms, each made by the constructor of the same name.
const (
	AlgorithmTokenBucket Algorithm = iota + 1
	AlgorithmLeakyBucket
	AlgorithmLeakyQueue
	AlgorithmFixedWindow
	AlgorithmSlidingWindow
	AlgorithmSlidingLog
	AlgorithmAnchoredWindow
	AlgorithmConcurrent
	AlgorithmBan
	AlgorithmCalendar
	AlgorithmDistinct
)

// Algorithms returns all algorithms in the order of their constants.
func Algorithms() []Algorithm {
	var all []Algorithm
	for a := AlgorithmTokenBucket; int(a) < algorithm.End; a++ {
		all = append(all, a)
	}
	return all
}

// String returns the name that [Parse] reads, such as "token-bucket".
func (a Algorithm) String() string {
	if name := algorithm.Of(a).Name; name != "" {
		return name
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// Holds reports whether a request holds its units until it ends, as under [Concurrent].
func (a Algorithm) Holds() bool { return algorithm.Of(a).Held }

// Delays reports whether a request may have to wait for its turn, as under [LeakyQueue].
func (a Algorithm) Delays() bool { return algorithm.Of(a).Queues }

// HasBurst reports whether a limit has a burst or a capacity beside its rate.
func (a Algorithm) HasBurst() bool { return algorithm.Of(a).Drains }

// CountsValues reports whether a limit counts the different values of a key, as [Distinct] does.
func (a Algorithm) CountsValues() bool { return algorithm.Of(a).Values }

// algorithmNames returns the names of all algorithms in the order of their constants.
func algorithmNames() (names []string) {
	for _, a := range Algorithms() {
		names = append(names, a.String())
	}
	return names
}

// withArticle returns a's name with its article.
func (a Algorithm) withArticle() string {
	name := a.String()
	switch traits := &algorithm.Of(a).Traits; {
	case traits.Held:
		name = "concurrency limit"
	case traits.Values:
		name = "distinct limit"
	}
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
