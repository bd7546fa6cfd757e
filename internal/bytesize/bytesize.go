// Package bytesize parses and formats byte counts with units, such as 512MiB
// and 1.5 GiB.
package bytesize

import (
	"math"
	"strconv"
	"strings"
)

// units are those of a size, the powers of two first, in ascending order.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
}

const binary = 4 // of units

// Parse parses a size with its unit, such as 512MiB or 1.5 GB, and returns it
// in bytes. ok is false if the text is not a size. Sizes above 1<<62 are
// returned as 1<<62, and negative ones as -1.
func Parse(text string) (bytes int64, ok bool) {
	for _, unit := range units {
		number, found := strings.CutSuffix(text, unit.suffix)
		if !found {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || math.IsNaN(value) {
			return 0, false
		}
		return int64(max(-1, min(value*unit.bytes, 1<<62))), true
	}
	return 0, false
}

// Format writes bytes in the largest binary unit of which they are at least one, as
// a whole number or with one digit after the point: 512 B, 1.5 KiB, 2 GiB.
func Format(bytes int64) string {
	for i := binary - 1; i >= 0; i-- {
		if one := units[i].bytes; float64(bytes) >= one {
			return strings.TrimSuffix(strconv.FormatFloat(float64(bytes)/one, 'f', 1, 64), ".0") + " " + units[i].suffix
		}
	}
	return strconv.FormatInt(bytes, 10) + " B"
}
