package persona

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// This file reads single values. Each function reports what is wrong with n,
// calling it key, and returns the zero value then.

func (d *reader) text(n *yaml.Node, key string, most int) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		d.problems.add(n.Line, "%s must be text: put it in quotes if YAML takes it for something else", key)
		return ""
	}
	value := strings.TrimSpace(n.Value)
	switch {
	case value == "":
		d.problems.add(n.Line, "%s is empty: write a value", key)
	case len(value) > most:
		d.problems.add(n.Line, "%s has %d bytes: at most %d are allowed", key, len(value), most)
		return ""
	}
	return value
}

// choice reads one of options; nil options are not checked.
func (d *reader) choice(n *yaml.Node, key string, options []string) string {
	value := d.text(n, key, 64)
	if value == "" || options == nil || slices.Contains(options, value) {
		return value
	}
	d.problems.add(n.Line, "%s is %s: %s", key, quote(value), suggest(value, options))
	return ""
}

func (d *reader) integer(n *yaml.Node, key string, least, most int64) int64 {
	var value int64
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&value) != nil || value < least || value > most {
		d.problems.add(n.Line, "%s must be a whole number from %d to %d", key, least, most)
		return 0
	}
	return value
}

func (d *reader) flag(n *yaml.Node, key string) bool {
	var value bool
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(&value) != nil {
		d.problems.add(n.Line, "%s must be true or false", key)
	}
	return value
}

func (d *reader) decimal(n *yaml.Node, key string, least, most float64) float64 {
	var value float64
	tag := n.ShortTag()
	if n.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!float" || n.Decode(&value) != nil ||
		math.IsNaN(value) || value < least || value > most {
		d.problems.add(n.Line, "%s must be a number from %s to %s", key,
			strconv.FormatFloat(least, 'f', -1, 64), strconv.FormatFloat(most, 'f', -1, 64))
		return 0
	}
	return value
}

func (d *reader) duration(n *yaml.Node, key string) time.Duration {
	value, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || value < time.Second || value > 7*24*time.Hour {
		d.problems.add(n.Line, "%s must be a time from 1s to 168h with its unit, such as 30m", key)
		return 0
	}
	return value
}

// list reads distinct words, each checked by check.
func (d *reader) list(n *yaml.Node, key string, most int, check func(n *yaml.Node, value string)) []string {
	if n.Kind != yaml.SequenceNode {
		d.problems.add(n.Line, "%s must be a list, such as [a, b]", key)
		return nil
	}
	if len(n.Content) > most {
		d.problems.add(n.Line, "%s has %d entries: at most %d are allowed", key, len(n.Content), most)
		return nil
	}
	out := make([]string, 0, len(n.Content))
	for _, item := range n.Content {
		value := d.text(item, key, 1024)
		switch {
		case value == "":
		case slices.Contains(out, value):
			d.problems.add(item.Line, "%s has %s twice: keep one", key, quote(value))
		default:
			check(item, value)
			out = append(out, value)
		}
	}
	return out
}
