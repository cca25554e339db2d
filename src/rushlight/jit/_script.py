"""Where programs look for what scripting makes."""

from . import RecursiveScriptModule, ScriptFunction, ScriptModule

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptModule"]
