package headers

import "github.com/weir-go/weir/core"

// NewDraft12 is New with the parameters of the draft that is not published yet.
func NewDraft12(options Options, rules []core.Rule[string]) *Writer {
	return newWriter(options, policiesOf(rules), &draft12)
}
