package browserlink

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

const (
	// MaxTargets is how many targets are remembered for the runs of an agent for a user.
	MaxTargets = 500
	// MaxWords bounds the words of one, in bytes.
	MaxWords = 200
	// MaxPage bounds the page of one, in bytes.
	MaxPage = 160
	// MaxName bounds the name of one, in bytes.
	MaxName = 300
)

// Target is an element that was found by words before. The next time that the same words are
// used in a page of the same shape, it is the element with this role and accessible name.
// Nothing of it is an instruction, and the name is what a page says.
type Target struct {
	// Page is the host and the shape of the path; see PageOf.
	Page string `json:"page"`
	// Words are the target as the agent wrote it.
	Words string `json:"words"`
	// Role and Name are of one element only of the page.
	Role string `json:"role"`
	Name string `json:"name"`
}

// Words returns a target as it is compared and remembered: with single spaces.
func Words(target string) string { return strings.Join(strings.Fields(target), " ") }

// UsedTarget is what became of the target of a call.
type UsedTarget struct {
	Target
	// Hit reports that it was found as it was remembered, and Missed that what was remembered is
	// not in the page any more. With neither, it is to be remembered; a missed one is, too, if it
	// has a role.
	Hit    bool `json:"hit,omitempty"`
	Missed bool `json:"missed,omitempty"`
}

var roleForm = regexp.MustCompile(`^[a-z]{1,40}$`)

// Check refuses what cannot be remembered.
func (t Target) Check() error {
	if err := t.checkPlace(); err != nil {
		return err
	}
	if !roleForm.MatchString(t.Role) || t.Name == "" || len(t.Name) > MaxName || !line(t.Name) {
		return errors.New("a remembered target has no valid role or name")
	}
	return nil
}

func (t Target) checkPlace() error {
	if t.Page == "" || len(t.Page) > MaxPage || strings.Contains(t.Page, " ") || !line(t.Page) {
		return errors.New("a remembered target has no valid page")
	}
	if t.Words == "" || len(t.Words) > MaxWords || t.Words != Words(t.Words) || !line(t.Words) {
		return errors.New("a remembered target has no valid words")
	}
	return nil
}

// check refuses what has not the form of a used target: the keeper runs as the user of a browser
// that may have been taken over by a page.
func (u UsedTarget) check() error {
	if u.Missed && !u.Hit && u.Role == "" && u.Name == "" {
		return u.checkPlace()
	}
	return u.Target.Check()
}

func line(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }

var (
	segmentForm = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,40}$`)
	numberForm  = regexp.MustCompile(`^[0-9]+$|^[0-9a-fA-F-]{8,}$|[0-9].*[0-9].*[0-9].*[0-9]`)
)

// PageOf returns the host of an address with the shape of its path: parts that name one of many
// things, such as /orders/7, are a star. It is empty for what is no web page.
func PageOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	page := u.Host
	for part := range strings.SplitSeq(strings.Trim(u.Path, "/"), "/") {
		if !segmentForm.MatchString(part) && part != "" || numberForm.MatchString(part) {
			part = "*"
		}
		page += "/" + part
	}
	if len(page) > MaxPage || strings.ContainsAny(page, " ") || !line(page) {
		return ""
	}
	return page
}
