package redisbackend

import (
	"embed"
	"fmt"
	"strings"

	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

//go:embed *.lua
var files embed.FS

// file returns the text of a Lua file.
func file(name string) string {
	return string(must(files.ReadFile(name + ".lua")))
}

// A script is put together from files. A line "--- name" of a file is replaced by another file or
// by a text. Functions are then made only in the calls that need them:
//
//	takeScript    clock, take with families, one, writes, charge and quick_read inside: enough for
//	              most calls
//	              families, products, serial, bucket_ring: where a limit needs them
//	              debt, state, convert, read, ids: for a state that quick_read does not read
//	settleScript  clock, products, bucket_ring, serial, debt, state with families and convert,
//	              settle
var (
	families    = familyChain()
	errorSource = file("error")
	stateSource = file("debt") +
		replace(file("state"),
			"error", errorSource, "families", families, "convert", file("convert"))

	neededProducts = "if not muldiv then\n" + file("products") + "end\n"
	neededRing     = "if not noteLevel then\n" + file("bucket_ring") + "end\n"

	takeLocals = "local given, settles = ARGV[2], false\n"
	takeScript = line.GroupedScript(takeLocals + file("clock") + replace(file("take"),
		"families", families,
		"one", replace(file("one"), "products", file("products")),
		"writes", file("writes"),
		"charge", replace(file("charge"), "families", families, "products", file("products")),
		"quick_read", replace(file("quick_read"), "bucket_ring", file("bucket_ring")),
		"serial", file("serial"),
		"bucket_ring", file("bucket_ring"),
		"states", "(function()\n"+neededProducts+neededRing+stateSource+file("read")+"end)()\n"))

	settleLocals = "local given, settles, isSure = ARGV[2 * #KEYS + 2], true, nil\n"
	settleScript = line.NewScript(settleLocals +
		file("clock") + file("products") + file("bucket_ring") + file("serial") +
		"local errorOf, noteTaken, write\n" +
		"local isAlone = true\n" + file("writes") +
		stateSource + file("settle"))
	beatScript     = line.NewScript(file("beat"))
	renewScript    = line.NewScript(replace(file("renew"), "error", errorSource))
	takeBackScript = line.NewScript(
		replace(file("take_back"), "error", errorSource, "ids", file("ids")))
	releaseScript = line.NewScript(replace(file("release"), "error", errorSource))
	checkScript   = line.NewScript(replace(file("check"), "error", errorSource))
	whoScript     = file("who")
	resetScript   = line.NewScript(file("reset"))
)

// familyChain returns an if statement over letter. For each family it includes the family's file.
func familyChain() string {
	var b strings.Builder
	word := "if"
	for _, f := range wire.Families() {
		letters := strings.Join(strings.Split(f.Letters, ""), "' or letter == '")
		fmt.Fprintf(&b, "%s letter == '%s' then\n%s", word, letters, replace(file(f.File), "ids", file("ids")))
		word = "elseif"
	}
	return b.String() + "end\n"
}

// replace returns source with lines "--- name" replaced: texts are names, each with its text.
func replace(source string, texts ...string) string {
	for i := 0; i < len(texts); i += 2 {
		texts[i] = "--- " + texts[i] + "\n"
	}
	return strings.NewReplacer(texts...).Replace(source)
}
