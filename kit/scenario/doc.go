// Package scenario runs golden tests that read like short stories.
//
// A scenario is one txtar file. Its comment tells the story, its files are what
// is given, and the files below want/ are what must come out:
//
//	A replica is lost, and the primary stays where it is.
//
//	-- snapshot.yaml --
//	wanted: 3
//	present: [a, b]
//
//	-- want/plan.yaml --
//	create: [c]
//
// The test hands [Run] a function from the given files to the resulting ones:
//
//	func TestPlan(t *testing.T) {
//		scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
//			var snapshot Snapshot
//			in.YAML("snapshot.yaml", &snapshot)
//			out.SetYAML("plan.yaml", Decide(snapshot))
//			return out
//		})
//	}
//
// and "go test -update" writes what comes out into the scenarios, story and given
// files untouched, for a human to read before it is committed.
//
// # What counts as a failure
//
// A golden test is easily green for the wrong reason, so these all fail:
//
//   - no file matches the pattern, or a scenario has no story, or nothing comes out;
//   - a file below want/ is not produced, or a file is produced that is not there;
//   - a given file is never read: a misspelt name would otherwise be a default;
//   - a given document has a field that the program does not know, or has it twice,
//     or in other letters;
//   - the function gives another result the second time: each scenario is played
//     twice, because the order of a map would otherwise be found later, by chance.
//
// # What it may not do
//
// Only run.go touches the file system. [Play] is pure, and is all that a program
// needs to replay a scenario outside of a test.
//
// Start reading at [Play].
package scenario
