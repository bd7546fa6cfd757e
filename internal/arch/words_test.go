package arch_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// retired are labels and messages of the console and the command line that were
// replaced, by their row in the review that listed them: a variable part is left
// out. Quotes, angle brackets or a blank mark where a short one begins or ends.
var retired = []struct {
	row   int
	texts []string
}{
	{1, []string{"What it asked"}},
	{2, []string{"What happened before"}},
	{3, []string{"To the newest"}},
	{4, []string{"in the model's turn", "waits for the model's next turn"}},
	{5, []string{"Not let out:"}},
	{6, []string{"Nothing has happened yet", "What the agent thinks and does will stand here"}},
	{7, []string{"What the model was told"}},
	{8, []string{"No step yet", "Each tool call is recorded here before it happens"}},
	{9, []string{": it is in its next turn"}},
	{10, []string{"it wakes up, or hears it in its next turn"}},
	{11, []string{"Its persona's own instructions", "Its persona's instructions"}},
	{12, []string{"Place in the queue", "too far behind to tell"}},
	{13, []string{"Below it"}},
	{14, []string{"The hub answered no "}},
	{15, []string{"No iteration is finished yet", "Each shows its seven phases"}},
	{16, []string{"Agents write one with update_plan"}},
	{17, []string{"It has succeeded when"}},
	{18, []string{"No task is like that", "Change the filters, or clear them."}},
	{19, []string{"Words of the goal or the result"}},
	{20, []string{"No agent is like that", "Change the filter."}},
	{21, []string{"An agent is one Markdown file. Apply one, and it stands here."}},
	{22, []string{"At no task"}},
	{23, []string{"Iterations that it has done"}},
	{24, []string{"It has not run yet"}},
	{25, []string{"It shows with the first run"}},
	{26, []string{"Let new tasks start", "Hold new tasks"}},
	{27, []string{"starts no new task", "may start tasks again"}},
	{28, []string{"Kill everything of"}},
	{29, []string{"Nothing waits for you", "with an unknown outcome stand here"}},
	{30, []string{"Answered ones too"}},
	{31, []string{`The next one"`, "The one before"}},
	{32, []string{"Older ones"}},
	{33, []string{"Of a newer hub", "of a newer hub"}},
	{34, []string{`"it is rejected"`, `"the task ends"`, "the default is taken"}},
	{35, []string{"Nothing is held", "calls are held", "Each is made once when you accept"}},
	{36, []string{"Where its commands connected to"}},
	{37, []string{"What the agent thought"}},
	{38, []string{"What would happen", "What would become of"}},
	{39, []string{"Suggest another way", "Replace its plan", "Ask about it"}},
	{40, []string{"Ask no more about them"}},
	{41, []string{"From now on, for 30 days, allow", "this call, exactly", "calls that look like it", "every call of {"}},
	{42, []string{"As it has, where empty."}},
	{43, []string{"The call is left out, and the agent gets this."}},
	{44, []string{"what was held is left out"}},
	{45, []string{"The workspace is given back as it was"}},
	{46, []string{"For the record.", "The agent sees it."}},
	{47, []string{"Approve with these"}},
	{48, []string{"It is tried again", "It is run once more"}},
	{49, []string{"Your role may not answer this."}},
	{50, []string{"Nothing is called that."}},
	{51, []string{"There is no such page", "Press g f for the fleet"}},
	{52, []string{"Not connected: trying again"}},
	{53, []string{"It is asked again by itself", "look whether the hub runs"}},
	{54, []string{"As the system"}},
	{55, []string{"I have kept it", "This is shown only this once."}},
	{56, []string{"Reason (for the record)"}},
	{57, []string{"No file was changed", "What steps change in the workspace stands here"}},
	{58, []string{"Can be undone while it runs", "The time to undo is over"}},
	{59, []string{"were given back"}},
	{60, []string{"Changed by others later", "What about these", "Change nothing at all", "Leave them, give back the others", "Give them back: later changes are lost"}},
	{61, []string{"had effects that this does not take back"}},
	{62, []string{">As it is<", "Since before step"}},
	{63, []string{"It is as it was."}},
	{64, []string{"There are more than can be shown."}},
	{65, []string{"mend it in the text"}},
	{66, []string{"Nothing: people run it", "The end of its last run", `"A button"`}},
	{67, []string{"What starts it"}},
	{68, []string{"Empty for UTC.", "empty for UTC"}},
	{69, []string{"Another name would be another agent."}},
	{70, []string{"it waits for one."}},
	{71, []string{`"is made"`, "has a new version", `is as it was"`}},
	{72, []string{"Nothing starts it by itself."}},
	{73, []string{"Its secret is the one that was shown"}},
	{74, []string{"What you changed is not deployed."}},
	{75, []string{"It is in order:", "Nothing differs from what is deployed."}},
	{76, []string{"Deploying takes the role advanced"}},
	{77, []string{"Front matter with the least that it must say."}},
	{78, []string{"Runs that no hub was there for", "Are made up for once", "Are left out", "Are all made up for"}},
	{79, []string{"While the run before goes on", "Another starts beside it", "Nothing is started", "The next one waits for it", "It is ended for the next one"}},
	{80, []string{"the kind's own"}},
	{81, []string{"Its last secret counts until"}},
	{82, []string{"Make it", " is there`}"}},
	{83, []string{`What came"`, "Keep these"}},
	{84, []string{"does this from now on"}},
	{85, []string{"Told apart by", "One at a time with"}},
	{86, []string{"It came in once more"}},
	{87, []string{"It has not fired yet"}},
	{88, []string{"stopped by its limit"}},
	{89, []string{"Nothing starts ${"}},
	{90, []string{"Nobody is told yet"}},
	{91, []string{"took a notice", "did not take it"}},
	{92, []string{"is told no more", "is told from now on"}},
	{93, []string{"What is told", "what people have to know"}},
	{94, []string{"Administrators say who is told", "leaves the house here"}},
	{95, []string{"messages are signed with the secret before"}},
	{96, []string{"The key ends on", "Where that is known."}},
	{97, []string{"by the hub's environment", "key has ended", "key ends soon"}},
	{98, []string{"broke off: estimated"}},
	{99, []string{"Prices of a million tokens", "No model with a price is called so", "A model without a price is refused"}},
	{100, []string{"Empty for the price of input.", "> Set it <"}},
	{101, []string{`"Of"`, `"Every"`}},
	{102, []string{"set aside"}},
	{103, []string{"What it may cost", "So many US dollars", ">No limit<", ">The default<"}},
	{104, []string{"A run works for", "none worse than"}},
	{105, []string{"one a line; * stands for any letters"}},
	{106, []string{`"Middle"`, `"90 %"`}},
	{107, []string{"those of others are for administrators", "people and nobody"}},
	{108, []string{"Likely to take", "nine of ten within", "Left to spend"}},
	{109, []string{"Empty: what its persona says."}},
	{110, []string{"Nobody to speak with yet", "Make an agent first"}},
	{111, []string{"it answers and does nothing", "what it is at goes on"}},
	{112, []string{"As its persona says", "This run is not as its persona says", "Less care takes an administrator."}},
	{113, []string{"Speaking with agents takes the role"}},
	{114, []string{"Its page"}},
	{115, []string{"Nothing new starts here"}},
	{116, []string{"You hold $", "takes tasks again"}},
	{117, []string{"Unlock all the same"}},
	{118, []string{"work by hand"}},
	{119, []string{"Killed for memory"}},
	{120, []string{"On the machine itself.", "Nothing else starts there meanwhile"}},
	{121, []string{"Download what is here", "It printed nothing.", "Nothing printed yet."}},
	{122, []string{"From where calls may come", "Of which calls", "Even where it refuses my own calls"}},
	{123, []string{"Those that ended too", "From the next call on it is asked about again."}},
	{124, []string{"Released ones too", "Nothing is held.", "which keeps what it ended from starting again"}},
	{125, []string{"What calls with it.", "Whose it is", "The most that it may", "all that its user may"}},
	{126, []string{"Password until now", `"Once more"`}},
	{127, []string{"sees everything", "gives agents work, and answers them", "makes agents and triggers, and works on nodes", "everything, people and money included"}},
	{128, []string{"Look again", "No entry is like that", "are compared as a whole"}},
	{129, []string{"no hub is known here"}},
	{130, []string{"there is no command"}},
	{131, []string{"nothing waits for an answer"}},
	{132, []string{"also what waits no more", "show at most so many", "go on where an earlier list ended"}},
	{133, []string{"Have a call made, as it was asked"}},
	{134, []string{"Refuse a call, or to answer a question"}},
	{135, []string{"Have tasks stand still until they are resumed", "Let paused tasks go on"}},
	{136, []string{"it was at nothing: this is a new task"}},
	{137, []string{"let this run have so much"}},
	{138, []string{"there is no policy: what the persona says holds", "it is sound, and would be", "holds from now on", "would have been decided otherwise"}},
	{139, []string{"Check a policy and have it hold from now on", "Say what agents may do: allow, ask, deny"}},
	{140, []string{"Have people and other systems told", "Have somebody told", "nobody is told:"}},
	{141, []string{"End everything of a task", "nothing of it was running or waiting"}},
	{142, []string{"Take a machine for work on it", "Give a machine back"}},
	{143, []string{"Put a queued task to another place", "Say who is to do a task"}},
	{144, []string{"or none for later", "what the agent should know besides the goal", "the time of --timeout is over"}},
	{145, []string{"checked only: nothing was stored", "no step of it changed a file"}},
	{146, []string{"Tell whether an export or a receipt was changed", "this is not what the hub has written", "is yours to compare"}},
	{147, []string{`"command there"`, `"otherwise"`}},
	{148, []string{"dangerous tools are asked for, and no rule allows this one", "it cannot be undone: what the command does outside"}},
	{149, []string{"nobody knows whether it took effect", "it may not run twice unasked"}},
	{150, []string{"mend the cause and retry it"}},
}

// In hub are the texts of approvals, unknown outcomes and escalations.
const firstRowOfHub = 148

var blanks = regexp.MustCompile(`\s+`)

func TestRetiredTextsAreGone(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"ui/src", "cmd", "hub"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if path == filepath.Join(root, "ui/src/gen") {
					return filepath.SkipDir
				}
				return nil
			}
			switch filepath.Ext(path) {
			case ".ts", ".tsx", ".go", ".json":
			default:
				return nil
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text := blanks.ReplaceAllString(strings.ReplaceAll(string(content), "&apos;", "'"), " ")
			for _, r := range retired {
				if dir == "hub" && r.row < firstRowOfHub {
					continue
				}
				for _, old := range r.texts {
					if strings.Contains(text, old) {
						t.Errorf("%s: row %d: %q was replaced: use the new text", strings.TrimPrefix(path, root+"/"), r.row, old)
					}
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
}
