// promql says what Prometheus itself makes of alerts and expressions: it reads {"rules": YAML, "expressions": [...],
// "scraped": [...], "minutes": N} and writes {"faults": [...], "readings": [...], "fired": [...]}. Faults are what
// `promtool check rules` would find; a reading is an expression's tree, or why it has none; fired are the alerts that so
// many minutes of what was scraped set off. promtool itself needs the SDKs of all clouds to be compiled.
package main

import (
	"encoding/json"
	"log"
	"log/slog"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

type asked struct {
	Rules       string   `json:"rules"`
	Expressions []string `json:"expressions"`
	Scraped     []series `json:"scraped"`
	Minutes     int      `json:"minutes"`
}

type answered struct {
	Faults   []string  `json:"faults"`
	Readings []reading `json:"readings"`
	Fired    []fired   `json:"fired"`
}

type reading struct {
	Tree  *node  `json:"tree"`
	Fault string `json:"fault"`
}

type node struct {
	// Of a selector.
	Metric   string    `json:"metric"`
	Matchers []matcher `json:"matchers"`
	// Of a call or an aggregation.
	Function string `json:"function"`
	// Those after by, without, on, ignoring, group_left and group_right.
	Labels []string `json:"labels"`
	// An aggregation: its result has no labels but those of by.
	By bool `json:"by"`
	// The parts of it.
	Parts []*node `json:"parts"`
}

type matcher struct {
	Label string `json:"label"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

func tree(of parser.Node) *node {
	made := &node{Matchers: []matcher{}, Labels: []string{}, Parts: []*node{}}
	switch of := of.(type) {
	case *parser.VectorSelector:
		made.Metric = of.Name
		for _, one := range of.LabelMatchers {
			if one.Name != labels.MetricName {
				made.Matchers = append(made.Matchers, matcher{one.Name, one.Type.String(), one.Value})
			}
		}
	case *parser.Call:
		made.Function = of.Func.Name
	case *parser.AggregateExpr:
		made.Function, made.By = of.Op.String(), !of.Without
		made.Labels = append(made.Labels, of.Grouping...)
	case *parser.BinaryExpr:
		if of.VectorMatching != nil {
			made.Labels = append(append(made.Labels, of.VectorMatching.MatchingLabels...), of.VectorMatching.Include...)
		}
	}
	for part := range parser.ChildrenIter(of) {
		made.Parts = append(made.Parts, tree(part))
	}
	return made
}

func main() {
	var asked asked
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	reader := parser.NewParser(parser.Options{})
	answered := answered{Faults: []string{}, Readings: []reading{}, Fired: []fired{}}
	groups, faults := rulefmt.Parse([]byte(asked.Rules), false, model.UTF8Validation, reader, slog.Default())
	for _, fault := range faults {
		answered.Faults = append(answered.Faults, fault.Error())
	}
	if len(faults) == 0 {
		var err error
		if answered.Fired, err = firing(groups, asked.Scraped, asked.Minutes); err != nil {
			log.Fatal(err)
		}
	}
	for _, expression := range asked.Expressions {
		if read, err := reader.ParseExpr(expression); err != nil {
			answered.Readings = append(answered.Readings, reading{Fault: err.Error()})
		} else {
			answered.Readings = append(answered.Readings, reading{Tree: tree(read)})
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answered); err != nil {
		log.Fatal(err)
	}
}
