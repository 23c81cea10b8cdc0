/* Which expression needs which: an order in which all can be evaluated, or the circle that prevents it. */
#include "sweep/inside.h"

enum { NEW = 0, OPEN, FINISHED };

typedef struct walk {
  sweep_reader *reader;
  int state[SWEEP_PARAMETERS_MOST];
  int path[SWEEP_PARAMETERS_MOST]; /* of open parameters */
  int length;
} walk;

static void complain_of_circle(walk *w, int again) {
  const mhas_sweep *sweep = w->reader->sweep;
  mhas_text circle = {0};
  sweep_place place = {0, 1, 1};
  bool placed = false;
  int start = 0;
  while (w->path[start] != again) {
    start++;
  }
  for (int i = start; i < w->length; i++) {
    const sweep_definition *definition = &sweep->definition[w->path[i]];
    mhas_text_append(&circle, "%s -> ", sweep->experiment->parameters[w->path[i]].name);
    if (definition->given && !placed) {
      place = definition->place;
      placed = true;
    }
  }
  sweep_complain(w->reader->complaints, place, "expressions go in a circle: %s%s; give one of them a value",
                 mhas_text_string(&circle), sweep->experiment->parameters[again].name);
  mhas_text_free(&circle);
}

static void visit(walk *w, int parameter) {
  mhas_sweep *sweep = w->reader->sweep;
  const sweep_expression *expression = sweep->definition[parameter].expression;
  if (w->state[parameter] == OPEN) {
    complain_of_circle(w, parameter);
  }
  if (w->state[parameter] != NEW || expression == NULL) {
    return;
  }
  w->state[parameter] = OPEN;
  w->path[w->length++] = parameter;
  uint64_t needs = expression->uses;
  for (int p = 0; p < sweep->experiment->parameter_count; p++) {
    if ((expression->uses >> p & 1) != 0) {
      visit(w, p);
      needs |= sweep->needs[p];
    }
  }
  w->length--;
  w->state[parameter] = FINISHED;
  sweep->needs[parameter] = needs | UINT64_C(1) << parameter;
  sweep->order[sweep->order_count++] = parameter;
}

void sweep_order_expressions(sweep_reader *reader) {
  mhas_sweep *sweep = reader->sweep;
  walk w = {.reader = reader};
  for (int p = 0; p < sweep->experiment->parameter_count; p++) {
    visit(&w, p);
  }
  if (sweep->where != NULL) {
    sweep->where_needs = sweep->where->uses;
    for (int p = 0; p < sweep->experiment->parameter_count; p++) {
      if ((sweep->where->uses >> p & 1) != 0) {
        sweep->where_needs |= sweep->needs[p];
      }
    }
  }
}
