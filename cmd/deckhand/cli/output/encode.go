package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
)

// compact returns a message in the JSON of the API (protojson: lower camel
// case names, 64-bit integers as strings), with fields that have their default
// value present, so that programs need not look whether they are there.
func compact(m proto.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	// protojson varies its white space on purpose; ours is stable.
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return nil, err
	}
	return termsafe.JSON(out.Bytes()), nil
}

func compactArray(items []proto.Message) ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			out.WriteByte(',')
		}
		raw, err := compact(item)
		if err != nil {
			return nil, err
		}
		out.Write(raw)
	}
	out.WriteByte(']')
	return out.Bytes(), nil
}

func (p *Printer) jsonLine(m proto.Message) error {
	raw, err := compact(m)
	if err != nil {
		return err
	}
	_, err = p.Out.Write(append(raw, '\n'))
	return err
}

func (p *Printer) json(m proto.Message) error {
	raw, err := compact(m)
	if err != nil {
		return err
	}
	return p.indented(raw)
}

func (p *Printer) jsonArray(items []proto.Message) error {
	raw, err := compactArray(items)
	if err != nil {
		return err
	}
	return p.indented(raw)
}

func (p *Printer) indented(raw []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := p.Out.Write(out.Bytes())
	return err
}

func (p *Printer) yaml(m proto.Message) error {
	raw, err := compact(m)
	if err != nil {
		return err
	}
	return p.asYAML(raw)
}

func (p *Printer) yamlArray(items []proto.Message) error {
	raw, err := compactArray(items)
	if err != nil {
		return err
	}
	return p.asYAML(raw)
}

// asYAML writes a JSON text as YAML, its keys in the same order.
func (p *Printer) asYAML(raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	node, err := yamlNode(decoder)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return fmt.Errorf("encode YAML: %w", err)
	}
	// The encoder escapes what is misleading in double-quoted text only partly;
	// what it lets through stands in quoted text (yamlString), where these
	// escapes mean the same.
	_, err = p.Out.Write(termsafe.JSON(out.Bytes()))
	return err
}

func yamlNode(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		if token == '{' {
			node.Kind = yaml.MappingNode
		}
		for decoder.More() {
			if node.Kind == yaml.MappingNode {
				key, err := yamlNode(decoder)
				if err != nil {
					return nil, err
				}
				node.Content = append(node.Content, key)
			}
			value, err := yamlNode(decoder)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, value)
		}
		if len(node.Content) == 0 {
			node.Style = yaml.FlowStyle
		}
		_, err := decoder.Token() // the closing delimiter
		return node, err
	case string:
		return yamlString(token), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(token)}, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
	return nil, fmt.Errorf("encode YAML: %w", io.ErrUnexpectedEOF)
}

func yamlString(s string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case termsafe.Text(s) != s, s == "<<", s == "=":
		node.Style = yaml.DoubleQuotedStyle
	case strings.Contains(s, "\n"):
		node.Style = yaml.LiteralStyle
		// Blocks whose lines begin with white space of their own are read
		// differently by different parsers.
		if strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") || strings.HasPrefix(s, "\t") || strings.Contains(s, "\n\t") {
			node.Style = yaml.DoubleQuotedStyle
		}
	}
	return node
}
