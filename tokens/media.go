package tokens

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
)

// mediaKind is what bytes in a body are that are no text.
type mediaKind uint8

const (
	noMedia mediaKind = iota
	pictureMedia
	soundMedia
	videoMedia
	fileMedia
	mediaKinds
)

// mediaRows are the estimates of media, in tokens: a picture of 1920x1080 and most larger ones, five
// minutes of sound at 32 a second, five minutes of video at 263 a second, ten pages of a file.
var mediaRows = [mediaKinds]struct {
	tokens    int64
	one, many string
}{
	pictureMedia: {5000, "a picture", "pictures"},
	soundMedia:   {10_000, "a recording", "recordings"},
	videoMedia:   {80_000, "a video", "videos"},
	fileMedia:    {25_000, "a file", "files"},
}

// mediaKindOf returns the kind of a media type such as image/png. Text is no media, and neither are
// JSON and other languages, a file without a type, or a type with escapes of its letters: a client
// would have its text count as little as a file.
func mediaKindOf(mediaType []byte) mediaKind {
	mediaType, _, _ = bytes.Cut(mediaType, []byte(";"))
	major, minor, _ := bytes.Cut(bytes.TrimSpace(mediaType), []byte("/"))
	major = bytes.TrimSuffix(major, []byte(`\`)) // which escapes the slash
	if len(major) == 0 || bytes.IndexByte(major, '\\') >= 0 || bytes.IndexByte(minor, '\\') >= 0 {
		return noMedia
	}
	for kind, name := range [...]string{
		noMedia: "text", pictureMedia: "image", soundMedia: "audio", videoMedia: "video",
	} {
		if bytes.EqualFold(major, []byte(name)) {
			return mediaKind(kind)
		}
	}
	if bytes.EqualFold(major, []byte("application")) && isLanguage(minor) {
		return noMedia
	}
	return fileMedia
}

// isLanguage reports whether application/name is a type of texts.
func isLanguage(name []byte) bool {
	if i := bytes.LastIndexByte(name, '+'); i >= 0 {
		name = name[i+1:]
	}
	if len(name) > 2 && strings.EqualFold(string(name[:2]), "x-") {
		name = name[2:]
	}
	return slices.ContainsFunc(languages[:], func(language string) bool {
		return strings.EqualFold(language, string(name))
	})
}

var languages = [...]string{
	"json", "ndjson", "jsonl", "jsonlines", "json5", "xml", "xhtml", "yaml", "toml", "csv",
	"javascript", "ecmascript", "typescript", "sql", "graphql", "sh", "shellscript", "python", "php",
	"httpd-php", "tex", "latex", "markdown", "text",
}

// medium is a text of a body in base64 that is no text to the model. A body may have hundreds of
// thousands.
type medium struct {
	kind      mediaKind
	isFormat  bool // of sound, such as wav
	mediaType span
	text      span // without its quotes
	data      int32
}

// span is a part of a body.
type span struct{ start, end int32 }

func (s span) of(body []byte) []byte { return body[s.start:s.end] }

// typeIn returns the media type that body says.
func (m *medium) typeIn(body []byte) string {
	mediaType := strings.ReplaceAll(string(m.mediaType.of(body)), `\/`, "/")
	if m.isFormat {
		return "audio/" + mediaType
	}
	return mediaType
}

// mediaIn returns the media in a body that is valid JSON, in their order.
//
// They are data URLs; data beside its media type, or beside the format of sound; and the data of a
// file and of a picture that a model has drawn. Schemas and examples are text, and so are the
// arguments that a model has called tools with, and all in a member whose name has escapes.
func mediaIn(api API, body []byte) []medium {
	has := func(text string) bool { return bytes.Contains(body, []byte(text)) }
	if len(body) > math.MaxInt32 ||
		!slices.ContainsFunc([]string{`;base64,`, `"data"`, `"file_data"`, `"result"`, `_url"`}, has) {
		return nil
	}
	f := mediaFinder{body: body, api: api}
	f.value(0, nil)
	slices.SortFunc(f.found, func(a, b medium) int { return cmp.Compare(a.text.start, b.text.start) })
	return f.found
}

// mediaFinder finds media.
type mediaFinder struct {
	body  []byte
	api   API
	found []medium
}

// described is what the members of an object say of each other.
type described struct {
	data, drawn, file       span
	mediaType, format, kind span
}

// value finds the media in the value at i, which is the member name of an object or nil, and returns
// the index behind it.
func (f *mediaFinder) value(i int, name []byte) int {
	switch i = f.skipSpace(i); f.body[i] {
	case '{':
		return f.object(i, name)
	case '[':
		for {
			if i = f.skipSpace(i + 1); f.body[i] == ']' {
				return i + 1
			}
			if i = f.skipSpace(f.value(i, nil)); f.body[i] == ']' {
				return i + 1
			}
		}
	case '"':
		return f.textEnd(i+1) + 1
	}
	for i < len(f.body) && !isStructure[f.body[i]] {
		i++
	}
	return i
}

func (f *mediaFinder) skipSpace(i int) int {
	for strings.IndexByte(space, f.body[i]) >= 0 {
		i++
	}
	return i
}

// textEnd returns the index of the quote that ends the text at i.
func (f *mediaFinder) textEnd(i int) int {
	for {
		i += bytes.IndexByte(f.body[i:], '"')
		escapes := 0
		for f.body[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
		i++
	}
}

// object finds the media in the object at i, which is the member of another one, and returns the
// index behind it.
func (f *mediaFinder) object(i int, member []byte) int {
	var d described
	for {
		i = f.skipSpace(i + 1) // behind '{' or ','
		if f.body[i] == '}' {
			break
		}
		nameEnd := f.textEnd(i + 1)
		name := f.body[i+1 : nameEnd]
		i = f.skipSpace(f.skipSpace(nameEnd+1) + 1) // behind the colon
		switch {
		case f.isText(name):
			i += valueEnd(f.body[i:])
		case f.body[i] == '"':
			end := f.textEnd(i + 1)
			f.note(&d, name, member, span{int32(i) + 1, int32(end)})
			i = end + 1
		default:
			i = f.value(i, name)
		}
		if i = f.skipSpace(i); f.body[i] == '}' {
			break
		}
	}
	f.beside(&d, member)
	return i + 1
}

// isText reports whether all in a member is text to the model, or nothing.
func (f *mediaFinder) isText(name []byte) bool {
	switch string(name) {
	case "parameters", "schema", "input_schema", "arguments", "metadata",
		"input_examples", "chat_template_kwargs", "documents":
		return true
	case "input": // of a tool
		return f.api == Messages
	}
	return bytes.IndexByte(name, '\\') >= 0
}

// note notes a member of an object that is a text. The object is a member of another one.
func (f *mediaFinder) note(d *described, name, member []byte, text span) {
	if f.url(name, member, text) || f.bare(name, member, text) {
		return
	}
	switch string(name) {
	case "data":
		d.data = text
	case "result":
		d.drawn = text
	case "file_data":
		d.file = text
	case "media_type", "mime_type", "mimeType":
		d.mediaType = text
	case "format":
		d.format = text
	case "type":
		d.kind = text
	}
}

// beside finds the data that an object describes, which is the member of another one.
func (f *mediaFinder) beside(d *described, member []byte) {
	switch kind := string(d.kind.of(f.body)); {
	case d.data.end == 0 || kind == "text" || strings.Contains(kind, `\`):
	case d.mediaType.end > 0:
		f.add(medium{kind: mediaKindOf(d.mediaType.of(f.body)), mediaType: d.mediaType, text: d.data,
			data: d.data.start})
	case d.format.end > 0 && string(member) == "input_audio":
		f.add(medium{kind: soundMedia, isFormat: true, mediaType: d.format, text: d.data,
			data: d.data.start})
	}
	if d.file.end > 0 {
		f.add(medium{kind: fileMedia, text: d.file, data: d.file.start})
	}
	if d.drawn.end > 0 && string(d.kind.of(f.body)) == "image_generation_call" {
		f.add(medium{kind: pictureMedia, text: d.drawn, data: d.drawn.start})
	}
}

// url finds a data URL, which is no text if it is such a member. Without a type it has that of an
// address.
func (f *mediaFinder) url(name, member []byte, text span) bool {
	switch string(name) {
	case "url", "image_url", "video_url", "audio_url", "file_url", "file_data", "data":
	default:
		return false
	}
	const longest = 100 // bytes of a media type and its parameters
	start := f.body[text.start:min(text.end, text.start+longest)]
	mediaType, isURL := bytes.CutPrefix(start, []byte("data:"))
	mediaType, _, ok := bytes.Cut(mediaType, []byte(";base64,"))
	if !isURL || !ok {
		return false
	}
	at := text.start + int32(len("data:"))
	data := at + int32(len(mediaType)+len(";base64,"))
	mediaType, _, _ = bytes.Cut(mediaType, []byte(";"))
	kind := mediaKindOf(mediaType)
	if len(mediaType) == 0 {
		kind = addressKind(name, member)
	}
	f.add(medium{kind: kind, mediaType: span{at, at + int32(len(mediaType))},
		text: text, data: data})
	return true
}

// bare finds base64 in place of an address. No address is so long and has no colon.
func (f *mediaFinder) bare(name, member []byte, text span) bool {
	const shortest = 256 // bytes
	kind := addressKind(name, member)
	if kind == noMedia || text.end-text.start < shortest {
		return false
	}
	f.add(medium{kind: kind, text: text, data: text.start})
	return true
}

// addressKind returns the kind of what an address is of: a member of another one, such as url of
// image_url.
func addressKind(name, member []byte) mediaKind {
	if string(name) == "url" {
		name = member
	}
	switch string(name) {
	case "image_url":
		return pictureMedia
	case "audio_url":
		return soundMedia
	case "video_url":
		return videoMedia
	}
	return noMedia
}

// add adds m if its data is base64.
func (f *mediaFinder) add(m medium) {
	if m.kind != noMedia && isBase64(f.body[m.data:m.text.end]) {
		f.found = append(f.found, m)
	}
}

// isBase64 reports whether text is base64, in which slashes may be escaped.
func isBase64(text []byte) bool {
	for i, c := range text {
		if !base64Bytes[c] && (c != '\\' || i+1 == len(text) || text[i+1] != '/') {
			return false
		}
	}
	return true
}

// base64Bytes are the bytes of base64, also of that for URLs.
var base64Bytes = func() (all [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=") {
		all[c] = true
	}
	return all
}()

// without returns body without the texts of media, as another slice if there are any.
func without(body []byte, media []medium) []byte {
	if len(media) == 0 {
		return body
	}
	rest := make([]byte, 0, len(body)-lengthOf(media))
	from := int32(0)
	for _, m := range media {
		rest = append(rest, body[from:m.text.start]...)
		from = m.text.end
	}
	return append(rest, body[from:]...)
}

// lengthOf returns how many bytes of a body the texts of media are.
func lengthOf(media []medium) (n int) {
	for _, m := range media {
		n += int(m.text.end - m.text.start)
	}
	return n
}
