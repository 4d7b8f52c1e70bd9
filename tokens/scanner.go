package tokens

import "github.com/weir-go/weir/internal/ground/arith"

// scanner finds the usage in a JSON value of any length. It knows where in the value it is, so a
// usage in a text or deeper in the value does not count. It accepts everything: what is not JSON
// tells nothing.
type scanner struct {
	bill  bill
	text  bool  // whether to count text
	shown int64 // bytes of text that the value shows

	depth   int
	places  [9]*place // the containers around the next byte; in deeper ones only text counts
	here    *place    // the container around the next byte; nil: none
	member  *edge     // the last name, if it counts
	takes   taking
	word    [48]byte // the beginning of the last string or number; none that counts is longer
	length  int64    // of the last string or number
	quoted  bool     // the next byte is in a string
	escaped bool     // behind a backslash
	state   valueState

	report      report // the usage that has begun
	begun       bool   // the report tells something
	entry       told   // the entry of it that has begun
	kind, model string // of that entry
}

// restart begins another value, and keeps what was told.
func (s *scanner) restart() {
	s.endReport()
	s.shown, s.depth, s.here, s.member, s.takes = 0, 0, nil, nil, nothing
	s.quoted, s.escaped, s.state = false, false, noValue
}

// taking is what the next value may be.
type taking uint8

const (
	nothing  taking = iota // that counts
	ofText                 // what the model has written
	ofMember               // what the member says
)

// valueState is where in a number or behind a string the next byte is.
type valueState uint8

const (
	noValue      valueState = iota // yet
	inNumber                       // or in a word such as null
	behindNumber                   // and spaces
	behindString                   // which may be a value
	broken                         // no number and no string
)

// isLabel reports whether the text of a member says what an event is: the model has not written it.
func isLabel(name []byte) bool {
	switch string(name) {
	case "type", "role", "id", "signature":
		return true
	}
	return false
}

func (s *scanner) read(p []byte) {
	for i := 0; i < len(p); {
		if s.quoted {
			i += s.readString(p[i:])
			continue
		}
		c := p[i]
		i++
		switch c {
		case '"':
			s.quoted, s.state, s.length = true, broken, 0
		case ':':
			s.endName()
		case '{', '[':
			s.enter(c == '[')
		case '}', ']':
			s.endValue()
			s.leave()
		case ',':
			s.endValue()
		case ' ', '\t', '\r', '\n':
			if s.state == inNumber {
				s.state = behindNumber
			}
		default:
			i += s.readNumber(p[i-1:]) - 1
		}
	}
}

// readString reads the part of p that belongs to a string, and returns its length.
func (s *scanner) readString(p []byte) int {
	end := s.stringEnd(p)
	if s.length < int64(len(s.word)) {
		copy(s.word[s.length:], p[:end])
	}
	s.length += int64(end)
	if end == len(p) {
		return end
	}
	s.quoted, s.state = false, behindString
	return end + 1
}

// stringEnd returns the index of the quote that ends the string, or len(p).
func (s *scanner) stringEnd(p []byte) int {
	i := 0
	if s.escaped {
		s.escaped, i = false, 1
	}
	for i < len(p) {
		switch p[i] {
		case '"':
			return i
		case '\\':
			i++
		}
		i++
	}
	s.escaped = i > len(p)
	return len(p)
}

// readNumber reads the part of p that belongs to a number, or to a word such as null. It returns its
// length.
func (s *scanner) readNumber(p []byte) int {
	end := 1
	for end < len(p) && !isStructure[p[end]] {
		end++
	}
	switch s.state {
	case noValue:
		s.state, s.length = inNumber, 0
	case inNumber:
	default:
		s.state = broken
		return end
	}
	if s.length < int64(len(s.word)) {
		copy(s.word[s.length:], p[:end])
	}
	s.length += int64(end)
	return end
}

// isStructure has the bytes that end a number.
var isStructure = [256]bool{'"': true, ':': true, ',': true, '{': true, '}': true, '[': true,
	']': true, ' ': true, '\t': true, '\r': true, '\n': true}

// last returns the last string or number, if all of it is known.
func (s *scanner) last() []byte {
	if s.length > int64(len(s.word)) {
		return nil
	}
	return s.word[:s.length]
}

func (s *scanner) endName() {
	s.member, s.takes = nil, nothing
	switch {
	case s.here == nil:
	case s.here.role == textRole:
		if s.state != behindString || !isLabel(s.last()) {
			s.takes = ofText
		}
	case s.state == behindString && s.length <= int64(len(s.word)):
		s.follow(s.here.find(s.word[:s.length]))
	}
	s.state = noValue
}

// follow makes e, which may be nil, the member whose value is next.
func (s *scanner) follow(e *edge) {
	switch {
	case e == nil:
	case e.to != nil && e.to.role == textRole:
		s.member, s.takes = e, ofText
	default:
		s.member, s.takes = e, ofMember
	}
}

// enter begins an object or an array.
func (s *scanner) enter(isArray bool) {
	to := outsidePlace
	switch {
	case s.here == nil:
		to = answerPlace.inner(nil, isArray)
	case s.here.role == textRole:
		to = s.here
	case s.here.isArray:
		to = s.here.inner(nil, isArray)
	case s.member != nil:
		to = s.member.inner(isArray)
	}
	if s.depth++; s.depth < len(s.places) {
		s.places[s.depth] = to
	} else if to.role != textRole {
		to = outsidePlace
	}
	s.begin(to)
	if to.role >= usageRole {
		s.enterUsage(to.role)
	}
}

func (s *scanner) enterUsage(r role) {
	switch r {
	case usageRole:
		s.endReport()
	case listRole:
		s.report.entries, s.begun = entries{}, true
	case entryRole:
		s.entry, s.kind, s.model = told{}, "", ""
	}
}

// begin makes p the place of the next byte.
func (s *scanner) begin(p *place) {
	s.here, s.member, s.takes, s.state = p, nil, nothing, noValue
	if p.role == textRole {
		s.takes = ofText
	}
}

// leave ends an object or an array.
func (s *scanner) leave() {
	if s.depth <= 1 {
		s.depth, s.here, s.member, s.takes, s.state = 0, nil, nil, nothing, broken
		return
	}
	if s.depth < len(s.places) && s.here.role >= usageRole {
		s.leaveUsage(s.here.role)
	}
	s.depth--
	to := s.places[min(s.depth, len(s.places)-1)]
	if s.depth >= len(s.places) && to.role != textRole {
		to = outsidePlace
	}
	s.begin(to)
	s.state = broken
}

func (s *scanner) leaveUsage(r role) {
	switch r {
	case usageRole:
		s.endReport()
	case entryRole:
		s.report.entries.add(s.kind, s.model, &s.entry)
	}
}

func (s *scanner) endReport() {
	if s.begun {
		s.bill.add(&s.report)
		s.report, s.begun = report{}, false
	}
}

// told returns what the value has told so far, a usage that has not ended included.
func (s *scanner) told() bill {
	b := s.bill
	b.add(&s.report)
	return b
}

// endValue ends a member or an element.
func (s *scanner) endValue() {
	switch {
	case s.takes == nothing || s.state == noValue || s.state == broken:
	case s.takes == ofText:
		if s.text && s.state == behindString {
			s.shown = arith.Sum(s.shown, s.length)
		}
	case s.member.number >= 0:
		s.endNumber(s.member)
	case s.member.word != noWord && s.state == behindString:
		s.endWord(s.member.word)
	}
	s.state = noValue
}

func (s *scanner) endNumber(m *edge) {
	value, ok := parseNumber(s.word[:min(s.length, int64(len(s.word)))], s.length)
	if !ok {
		return
	}
	if s.inEntry() {
		s.entry.set(int(m.number), value)
	} else {
		s.report.set(int(m.number), value)
		s.begun = true
	}
}

// inEntry reports whether the next byte is in an entry of a usage.
func (s *scanner) inEntry() bool {
	for i := min(s.depth, len(s.places)-1); i > 0; i-- {
		switch s.places[i].role {
		case entryRole:
			return true
		case usageRole:
			return false
		}
	}
	return false
}

func (s *scanner) endWord(w word) {
	text := s.last()
	if text == nil {
		return
	}
	var to *string
	switch w {
	case kindWord:
		to = &s.kind
	case modelWord:
		to = &s.model
	case answerWord:
		to = &s.bill.model
	case tierWord:
		to = &s.bill.tier
	case speedWord:
		to = &s.bill.speed
	}
	if *to != string(text) { // a conversion that allocates only if it is another one
		*to = string(text)
	}
}
