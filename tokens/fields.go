package tokens

import "strings"

// rows are the numbers of a usage that count. docs/tokens.md has the same table, with the services
// that write them.
var rows = []row{
	{"prompt_tokens", input, within},
	{"input_tokens", input, beside},
	{"citation_tokens", cited, beside},

	{"cached_tokens", cached, within},
	{"prompt_tokens_details.cached_tokens", cached, within},
	{"input_tokens_details.cached_tokens", cached, within},
	{"prompt_token_details.cached_tokens", cached, within},
	{"prompt_cache_hit_tokens", cached, within},
	{"num_cached_tokens", cached, within},
	{"cache_read_input_tokens", cached, beside},

	{"prompt_tokens_details.cache_write_tokens", written, within},
	{"input_tokens_details.cache_write_tokens", written, within},
	{"prompt_tokens_details.cache_creation_tokens", written, within},
	{"prompt_tokens_details.cache_creation_input_tokens", written, within},
	{"cache_creation_input_tokens", written, beside},

	{"cache_creation.ephemeral_1h_input_tokens", hourly, within},
	{"prompt_tokens_details.cache_creation.ephemeral_1h_input_tokens", hourly, within},
	{"prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens", hourly, within},

	{"prompt_tokens_details.audio_tokens", audio, within},
	{"input_tokens_details.audio_tokens", audio, within},
	{"prompt_tokens_details.image_tokens", images, within},
	{"input_tokens_details.image_tokens", images, within},
	{"prompt_tokens_details.video_tokens", video, within},

	{"completion_tokens", output, within},
	{"output_tokens", output, within},
	{"total_tokens", total, within},

	{"completion_tokens_details.reasoning_tokens", reasoning, within},
	{"output_tokens_details.reasoning_tokens", reasoning, within},
	{"output_tokens_details.thinking_tokens", reasoning, within},
	{"reasoning_tokens", reasoning, within},

	{"completion_tokens_details.audio_tokens", audioOutput, within},
	{"output_tokens_details.audio_tokens", audioOutput, within},
	{"completion_tokens_details.image_tokens", imageOutput, within},
	{"output_tokens_details.image_tokens", imageOutput, within},

	{"server_tool_use.web_search_requests", calls, beside},
	{"server_tool_use_details.web_search_requests", calls, beside},
	{"prompt_tokens_details.web_search_requests", calls, beside},
	{"num_search_queries", calls, beside},
	{"num_server_side_tools_used", calls, beside},
}

// row is a number of a usage: its path from there, what it counts, and whether it is a part of the
// whole that the usage tells, or beside it.
type row struct {
	path  string
	class class
	share share
}

// class is what a number counts.
type class uint8

const (
	input class = iota
	cached
	written
	hourly // a part of written
	audio
	images
	video
	cited // input that the model has found
	output
	reasoning
	audioOutput
	imageOutput
	total // input and output together
	calls
	classes
)

// isOutput reports whether c is known only at the end of an answer.
func (c class) isOutput() bool { return c >= output && c != calls }

// share says whether a number is a part of another one.
type share uint8

const (
	within share = iota
	beside
	shares
)

// words are the texts of an answer that count, by their paths from a usage or from its entries.
type word uint8

const (
	noWord word = iota
	kindWord
	modelWord
	answerWord // the model of the answer
	tierWord
	speedWord
)

// place is a container in an answer, as far as it counts.
type place struct {
	role    role
	isArray bool
	any     bool // it is an object or an array, and so is all in it
	members []edge
	marks   uint64 // of the names of members, by markOf
}

// role is what a place is for.
type role uint8

const (
	noRole    role = iota
	textRole       // what the model has just written
	usageRole      // or more
	listRole       // of entries
	entryRole      // a run of a model that is a part of the request
)

// edge leads from a place to a member. The member "" is that of an array.
type edge struct {
	name   string
	to     *place // of an object or array; nil: nothing in it counts
	number int8   // class and share of a number, or −1
	word   word   // of a text
}

// markOf returns a bit that tells most names apart.
func markOf(name []byte) uint64 {
	if len(name) == 0 {
		return 1
	}
	return 1 << ((len(name) + int(name[0])) % 64)
}

// find returns the edge to a member, or nil.
func (p *place) find(name []byte) *edge {
	if p.marks&markOf(name) == 0 {
		return nil
	}
	for i := range p.members {
		if p.members[i].name == string(name) {
			return &p.members[i]
		}
	}
	return nil
}

// inner returns the place of a member that is an object or an array.
func (p *place) inner(name []byte, isArray bool) *place {
	if e := p.find(name); e != nil {
		return e.inner(isArray)
	}
	return outsidePlace
}

// inner returns the place of a member that is an object or an array.
func (e *edge) inner(isArray bool) *place {
	if e.to != nil && (e.to.isArray == isArray || e.to.any) {
		return e.to
	}
	return outsidePlace
}

// outsidePlace is where nothing counts.
var outsidePlace = &place{}

// at returns the edge to a member, which it makes.
func (p *place) at(name string) *edge {
	if e := p.find([]byte(name)); e != nil {
		return e
	}
	p.members, p.marks = append(p.members, edge{name: name, number: -1}), p.marks|markOf([]byte(name))
	return &p.members[len(p.members)-1]
}

// below returns the place of a member, which it makes.
func (p *place) below(name string) *place {
	e := p.at(name)
	if e.to == nil {
		e.to = &place{}
	}
	return e.to
}

// answerPlace is what an answer is in.
var answerPlace = newAnswerPlace()

// newAnswerPlace returns the places of a usage: that of a chat completion, of OpenAI's response in
// an event, of Anthropic's message whose output has only begun, of Moonshot in the choices of a
// stream, and of Groq in the last event.
func newAnswerPlace() *place {
	text := &place{role: textRole, any: true}
	whole := newUsage(rows)
	begun := make([]row, 0, len(rows))
	for _, r := range rows {
		if !r.class.isOutput() {
			begun = append(begun, r)
		}
	}
	outside, top := &place{}, &place{}
	outside.at("").to = top
	top.at("usage").to = whole
	top.at("delta").to = text
	top.at("service_tier").word = tierWord
	top.at("model").word = answerWord
	response := top.below("response")
	response.at("model").word = answerWord
	response.at("usage").to = whole
	response.at("service_tier").word = tierWord
	message := top.below("message")
	message.at("usage").to = newUsage(begun)
	message.at("model").word = answerWord
	top.below("x_groq").at("usage").to = whole
	choices := top.below("choices")
	choices.isArray = true
	choices.below("").at("usage").to = whole
	choices.below("").at("delta").to = text
	return outside
}

func newUsage(rows []row) *place {
	usage := withNumbers(&place{role: usageRole}, rows)
	usage.at("service_tier").word = tierWord
	usage.at("speed").word = speedWord
	list := usage.below("iterations")
	list.role, list.isArray = listRole, true
	entry := withNumbers(list.below(""), rows)
	entry.role = entryRole
	entry.at("type").word = kindWord
	entry.at("model").word = modelWord
	return usage
}

func withNumbers(p *place, rows []row) *place {
	for _, r := range rows {
		at, rest := p, r.path
		for {
			name, after, more := strings.Cut(rest, ".")
			if !more {
				at.at(name).number = int8(number(r.class, r.share))
				break
			}
			at, rest = at.below(name), after
		}
	}
	return p
}
