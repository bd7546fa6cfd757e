package taskplan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// maxPlan bounds the file of a plan, in bytes.
const maxPlan = 1 << 20

// Form describes the file of a plan, for help texts.
const Form = `The file is YAML or JSON: a list of items. An item is its title, or an object with title
and, where needed, id, status (pending, in_progress, done or skipped), depends_on and
children:

    - Back up the database
    - title: Migrate
      children: [Stop the writer, Run the migration]`

// ReadPlan reads a plan from a file, or from standard input when file is "-".
func ReadPlan(e *env.Env, cmd *cobra.Command, file string) (*deckhandv1.ReplacePlan, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = env.ReadAll(e.In, maxPlan)
	} else {
		data, err = env.ReadBounded(file, maxPlan)
	}
	if err != nil {
		return nil, err
	}
	plan, err := parsePlan(data)
	if err != nil {
		return nil, env.Usage(cmd, "the plan in %s cannot be read: %v", file, err)
	}
	return plan, nil
}

// parsePlan reads a list of items, or an object whose items are one.
func parsePlan(data []byte) (*deckhandv1.ReplacePlan, error) {
	var read any
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&read); err != nil {
		return nil, err
	}
	if object, ok := read.(map[string]any); ok {
		if len(object) != 1 || object["items"] == nil {
			return nil, errors.New("it is neither a list of items nor an object with items")
		}
		read = object["items"]
	}
	items, err := planItems(read)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		return nil, err
	}
	plan := &deckhandv1.ReplacePlan{}
	if err := protojson.Unmarshal(encoded, plan); err != nil {
		return nil, err
	}
	if len(plan.GetItems()) == 0 {
		return nil, errors.New("it has no items")
	}
	return plan, nil
}

// planItems makes an object of each item.
func planItems(read any) ([]any, error) {
	list, ok := read.([]any)
	if !ok {
		return nil, errors.New("items are to be a list")
	}
	for i, one := range list {
		switch item := one.(type) {
		case string:
			list[i] = map[string]any{"title": item}
		case map[string]any:
			if children, ok := item["children"]; ok {
				below, err := planItems(children)
				if err != nil {
					return nil, err
				}
				item["children"] = below
			}
		default:
			return nil, fmt.Errorf("item %d is neither a title nor an object", i+1)
		}
	}
	return list, nil
}
